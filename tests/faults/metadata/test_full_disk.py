"""A metadata replica with a full disk: refusals, continued operation, and state afterwards (CTL-5)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc
import pytest
from grpc import aio

from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    Command,
    CreateStream,
    GetStatusRequest,
    ProposeRequest,
    ReplicaStatus,
    StateSnapshot,
)
from tests.faults.metadata.clients import PRIMARY, Caller
from tests.faults.metadata.cluster import Cluster, converged, current, running_cluster
from tests.faults.metadata.prepared import eventually
from tests.metadata_replicas import METADATA, ReplicaProcess
from tests.small_disk import small_disk

pytestmark = pytest.mark.timeout(300)

MEBIBYTE = 1024 * 1024
# Maximum number of commands: half of the first journal file at one block per command, plus a margin.
COMMANDS_MAX = 3000
TIMEOUT_SECONDS = 60.0


class Names:
    """Client that creates streams and records which must exist and which must not."""

    def __init__(self, cluster: Cluster) -> None:
        self.caller = Caller(cluster.replicas, timeout_seconds=10.0)
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self._count = 0
        self._target = 0

    async def create(self) -> str | None:
        """Create a stream at the current primary; return the reason if it was refused for lack of space."""
        name = f"stream {self._count} {'x' * 200}"
        self._count += 1
        request = ProposeRequest(command=Command(create_stream=CreateStream(name=name)))
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            assert time.monotonic() < deadline, "no replica is primary"
            try:
                response = await self.caller.stubs[self._target].Propose(request, metadata=METADATA, timeout=2.0)
            except aio.AioRpcError as error:
                details = str(error.details())
                if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "disk" in details:
                    self.refused.add(name)
                    return details
                if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                    named = dict(error.trailing_metadata() or ()).get(PRIMARY)
                    self._target = int(named) if named is not None else self._next()
                    await asyncio.sleep(0.01)
                    continue
                # Outcome unknown: the stream may exist.
                self._target = self._next()
                await asyncio.sleep(0.05)
                return None
            assert response.reply.status == Status.OK, Status(response.reply.status)
            self.acknowledged.add(name)
            return None

    async def create_until_refused(self) -> str:
        """Create streams until the disk is full; return the reason of the refusal."""
        for _ in range(COMMANDS_MAX):
            why = await self.create()
            if why is not None:
                return why
        pytest.fail("the disk is never full")

    async def status(self, replica: ReplicaProcess) -> ReplicaStatus:
        return await self.caller.stubs[replica.index].GetStatus(GetStatusRequest(), metadata=METADATA, timeout=30.0)

    def check(self, state: StateSnapshot) -> None:
        """Check that acknowledged streams exist and refused ones do not."""
        found = {stream.name for stream in state.catalog.streams}
        assert self.acknowledged <= found
        assert not self.refused & found

    def _next(self) -> int:
        return (self._target + 1) % len(self.caller.stubs)


async def takes_commands(names: Names) -> None:
    """Wait until commands are accepted, without a restart or any other intervention."""
    deadline = time.monotonic() + 60.0
    taken = len(names.acknowledged)
    # Commands with an unknown outcome do not count.
    while len(names.acknowledged) == taken:
        await names.create()
        assert time.monotonic() < deadline, "no command is taken though there is space"
        await asyncio.sleep(0.1)


@pytest.mark.long
async def test_a_replica_that_is_alone_refuses_and_goes_on_by_itself(tmp_path: Path) -> None:
    """A single replica refuses commands and recovers, also after a kill and a restart on the full disk."""
    with small_disk(tmp_path / "disk", 48 * MEBIBYTE) as disk:
        (tmp_path / "replica-0").symlink_to(disk.path)
        async with running_cluster(tmp_path, count=1) as cluster:
            (replica,) = cluster.replicas
            names = Names(cluster)
            while not names.acknowledged:
                await names.create()
            disk.fill()
            why = await names.create_until_refused()
            assert "disk" in why
            assert "full" in why
            assert "Free some space" in why
            assert (await names.status(replica)).storage_full
            await eventually("the full disk is reported", lambda: "is full: the metadata journal" in replica.log_text())
            names.check(await current(names.caller.stubs[0]))

            replica.kill()
            replica.start()
            names.check(await current(names.caller.stubs[0]))
            await names.create_until_refused()
            names.check(await current(names.caller.stubs[0]))

            disk.free()
            await takes_commands(names)
            assert not (await names.status(replica)).storage_full
            await eventually(
                "room is reported", lambda: "there is room for the metadata journal again" in replica.log_text()
            )
            names.check(await current(names.caller.stubs[0]))
            disk.fill()
            await names.create_until_refused()
            # A clean stop works while nothing can be written.
            assert replica.stop() == 0
            disk.free()
            replica.start()
            names.check(await current(names.caller.stubs[0]))
            await names.caller.close()
            assert replica.stop() == 0
            assert "Traceback" not in replica.log_text()


@pytest.mark.long
async def test_a_primary_without_space_hands_over_to_one_that_has_some(tmp_path: Path) -> None:
    """Commands are accepted all the time; the replica with the full disk catches up when it has space again."""
    with small_disk(tmp_path / "disk", 48 * MEBIBYTE) as disk:
        async with running_cluster(tmp_path) as cluster:
            names = Names(cluster)
            while not names.acknowledged:
                await names.create()
            primary = (await names.status(cluster.replicas[0])).primary
            victim = cluster.replicas[primary]
            # Move the replica's directory to the small disk.
            assert victim.stop() == 0
            victim.data.rename(tmp_path / "moved")
            victim.data.symlink_to(disk.path)
            for file in (tmp_path / "moved").iterdir():
                (disk.path / file.name).write_bytes(file.read_bytes())
            victim.start()
            await converged(names.caller.stubs)
            await lead(names, cluster, victim)
            disk.fill()
            for _ in range(COMMANDS_MAX):
                await names.create()
                if "is full: the metadata journal" in victim.log_text():
                    break
            else:
                pytest.fail("the disk is never full")
            await takes_commands(names)
            refused = len(names.refused)
            for _ in range(200):
                await names.create()
            assert len(names.refused) == refused
            status = await names.status(victim)
            assert status.storage_full
            assert status.primary != victim.index
            disk.free()
            names.check(await converged(names.caller.stubs))
            await eventually("it has space", lambda: "there is room" in victim.log_text())
            await names.caller.close()
            for replica in cluster.replicas:
                assert replica.stop() == 0, replica.log_text()[-2000:]
                assert "Traceback" not in replica.log_text()


async def lead(names: Names, cluster: Cluster, wanted: ReplicaProcess) -> None:
    """Make one replica the primary by pausing the current primary."""
    deadline = time.monotonic() + 60.0
    while not ((status := await names.status(wanted)).HasField("primary") and status.primary == wanted.index):
        assert time.monotonic() < deadline
        if status.HasField("primary"):
            replica = cluster.replicas[status.primary]
            replica.pause()
            await asyncio.sleep(1.5)
            replica.resume()
        await asyncio.sleep(0.2)


@pytest.mark.long
async def test_three_replicas_on_one_full_disk(tmp_path: Path) -> None:
    """All replicas lack space: the primary refuses commands, and accepts them when there is space again."""
    with small_disk(tmp_path / "disk", 96 * MEBIBYTE) as disk:
        for index in range(3):
            (disk.path / str(index)).mkdir()
            (tmp_path / f"replica-{index}").symlink_to(disk.path / str(index))
        async with running_cluster(tmp_path) as cluster:
            names = Names(cluster)
            while not names.acknowledged:
                await names.create()
            disk.fill()
            await names.create_until_refused()
            for replica in cluster.replicas[1:]:
                replica.kill()
                replica.start()
            names.check(await converged(names.caller.stubs))
            disk.free()
            await takes_commands(names)
            names.check(await converged(names.caller.stubs))
            await names.caller.close()
            for replica in cluster.replicas:
                assert replica.stop() == 0, replica.log_text()[-2000:]
                assert "Traceback" not in replica.log_text()


async def test_nothing_begins_on_a_full_disk(tmp_path: Path) -> None:
    """A new replica names the location without space, and starts when there is space."""
    with small_disk(tmp_path / "disk", 16 * MEBIBYTE) as disk:
        (tmp_path / "replica-0").symlink_to(disk.path)
        disk.fill()
        async with running_cluster(tmp_path, count=1) as cluster:
            (replica,) = cluster.replicas
            assert await asyncio.to_thread(replica.process.wait, 30) == 1
            assert "error: " in replica.log_text()
            assert str(tmp_path / "replica-0") in replica.log_text()
            assert "No space left on device" in replica.log_text()
            assert "Traceback" not in replica.log_text()
            disk.free()
            replica.start()
            names = Names(cluster)
            while not names.acknowledged:
                await names.create()
            await names.caller.close()
            assert replica.stop() == 0
