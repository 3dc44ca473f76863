"""A group of three replicas with applied commands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateStream, UpdateStream
from tests.faults.metadata.clients import Caller, NotTaken
from tests.faults.metadata.cluster import Cluster, converged, running_cluster
from tests.metadata_replicas import ReplicaProcess

# Short journals, so that a replica that is down for long needs a state transfer of a checkpoint.
SHORT = {"SYSTEM_STATE_SNAPSHOT_COMMANDS": "64"}


class Client:
    """Client that retries a command until a replica accepts it."""

    def __init__(self, cluster: Cluster) -> None:
        self.caller = Caller(cluster.replicas, timeout_seconds=10.0)
        self.primary = 0
        self.unauthenticated: set[int] = set()
        """Replicas that refuse callers of this cluster: the client skips them, even if they become primary."""
        self.repeated = 0
        """Number of commands repeated after an unknown outcome: they may be applied twice."""

    async def propose(self, command: Command) -> Status:
        is_repeated = False
        while True:
            try:
                status = await self.caller.propose(self.primary, command)
            except NotTaken as refusal:
                named = refusal.primary
                self.primary = self._next() if named is None or named in self.unauthenticated else named
                await asyncio.sleep(0.02)
                continue
            if is_repeated and status is Status.STREAM_NAME_ALREADY_EXISTS:
                return Status.OK
            if status is not None:
                return status
            is_repeated = True
            self.repeated += 1
            self.primary = self._next()
            await asyncio.sleep(0.02)

    def _next(self) -> int:
        others = ((self.primary + step) % 3 for step in (1, 2, 3))
        return next(index for index in others if index not in self.unauthenticated)

    async def rename(self, count: int, concurrency: int = 64) -> None:
        """Rename stream 0 `count` times."""
        numbers = iter(range(count))

        async def work() -> None:
            for number in numbers:
                command = Command(update_stream=UpdateStream(stream_id=0, name=f"name {number} {time.time_ns()}"))
                assert await self.propose(command) is Status.OK

        await asyncio.gather(*(work() for _ in range(concurrency)))

    def may_have_made(self, operations: int, commands: int) -> bool:
        """Return whether this number of commands may have produced this number of operations."""
        return commands <= operations <= commands + self.repeated


@asynccontextmanager
async def prepared(
    directory: Path, settings: Mapping[str, str] = MappingProxyType(SHORT)
) -> AsyncIterator[tuple[Cluster, Client]]:
    """Run three replicas that have applied 301 commands; check that they stop cleanly at the end."""
    async with running_cluster(directory, settings=settings) as cluster:
        client = Client(cluster)
        try:
            assert await client.propose(Command(create_stream=CreateStream(name="s"))) is Status.OK
            await client.rename(300)
            await converged(client.caller.stubs)
            yield cluster, client
            for replica in cluster.replicas:
                if replica.is_running:
                    assert replica.stop() == 0, replica.log_text()[-2000:]
                assert "Traceback" not in replica.log_text()
        finally:
            await client.caller.close()


def backup_of(cluster: Cluster, client: Client) -> ReplicaProcess:
    return cluster.replicas[(client.primary + 1) % 3]


async def eventually(what: str, holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)
