"""CTL-2: a watcher of the catalog sees every version once, without a gap, whichever replica is killed or paused."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from headrace_metadata_client import CatalogWatch, MetadataTarget, Reads, Session, connected
from headrace_proto.catalog.v1 import Snapshot
from headrace_proto.metadata.v1 import Command, CreateStream, ProposeResponse
from tests.faults.metadata.cluster import running_cluster
from tests.metadata_replicas import NAME, SECRET

ROUNDS = 2
SECONDS = 60.0


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_follower_has_no_gap_while_replicas_are_killed_and_paused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        addresses = tuple(replica.address for replica in cluster.replicas)
        target = MetadataTarget(addresses=addresses, cluster=NAME, secret=SECRET, authority=None)
        async with connected(target) as connections:
            session = Session(connections.stubs, connections.metadata, attempt_seconds=0.5)
            watch = CatalogWatch(connections, look_seconds=0.5, timeout_seconds=0.5)
            follower = Follower(watch)
            try:
                for number in range(ROUNDS):
                    for replica in cluster.replicas:
                        response = await create(session, f"{number} of {replica.index}")
                        watch.expect(response.version)
                        await follower.reaches(response.version)
                        if number % 2:
                            replica.pause()
                        else:
                            replica.kill()
                        response = await create(session, f"{number} without {replica.index}")
                        watch.expect(response.version)
                        await follower.reaches(response.version)
                        if number % 2:
                            replica.resume()
                        else:
                            replica.start()
                assert len(follower.names) == 2 * ROUNDS * len(cluster.replicas)
                assert follower.snapshots == 1, "updates were missed"
                assert watch.version == await Reads(connections).version()
            finally:
                await follower.end()


class Follower:
    """Watcher that keeps the received state."""

    def __init__(self, watch: CatalogWatch) -> None:
        self.names: list[str] = []
        self.snapshots = 0
        self._version = 0
        self._changed = asyncio.Event()
        self._watch = watch
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async with aclosing(self._watch.events()) as events:
            async for event in events:
                if isinstance(event, Snapshot):
                    self.snapshots += 1
                    assert event.version >= self._version
                    self.names = [stream.name for stream in event.streams]
                else:
                    assert event.version == self._version + 1
                    self.names += [delta.stream_put.name for delta in event.deltas if delta.HasField("stream_put")]
                self._version = event.version
                self._changed.set()

    async def reaches(self, version: int) -> None:
        """Wait until this version has been received."""
        until = time.monotonic() + SECONDS
        while self._version < version:
            if self._task.done():
                self._task.result()
            assert time.monotonic() < until, f"version {version} is not sent, only {self._version}"
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 0.5)

    async def end(self) -> None:
        """Stop watching."""
        self._task.cancel()
        await asyncio.wait({self._task})


async def create(session: Session, name: str) -> ProposeResponse:
    response = await session.propose(Command(create_stream=CreateStream(name=name)), timeout_seconds=SECONDS)
    assert response.reply.status == 0
    return response
