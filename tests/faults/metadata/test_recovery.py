"""A replica that lost something comes back by itself, or says what it needs (CTL-5, CTL-6)."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateStream, UpdateStream
from tests.faults.metadata.clients import Caller, NotTaken
from tests.faults.metadata.cluster import Cluster, converged, running_cluster
from tests.faults.segment_files import flip
from tests.metadata_replicas import ReplicaProcess, free_port

pytestmark = pytest.mark.timeout(300)

# Journals that are short, so that a replica which is away for long has to be sent a checkpoint.
SHORT = {"SYSTEM_STATE_SNAPSHOT_COMMANDS": "64"}


class Client:
    """Proposes until somebody takes it."""

    def __init__(self, cluster: Cluster) -> None:
        self.caller = Caller(cluster.replicas, timeout_seconds=10.0)
        self.primary = 0

    async def propose(self, command: Command) -> Status:
        while True:
            try:
                status = await self.caller.propose(self.primary, command)
            except NotTaken as refusal:
                self.primary = refusal.primary if refusal.primary is not None else (self.primary + 1) % 3
                await asyncio.sleep(0.02)
                continue
            if status is not None:
                return status
            self.primary = (self.primary + 1) % 3
            await asyncio.sleep(0.02)

    async def rename(self, count: int, concurrency: int = 64) -> None:
        """Rename stream 0 so many times."""
        numbers = iter(range(count))

        async def work() -> None:
            for number in numbers:
                command = Command(update_stream=UpdateStream(stream_id=0, name=f"name {number} {time.time_ns()}"))
                assert await self.propose(command) is Status.OK

        await asyncio.gather(*(work() for _ in range(concurrency)))


@asynccontextmanager
async def prepared(folder: Path) -> AsyncIterator[tuple[Cluster, Client]]:
    async with running_cluster(folder, settings=SHORT) as cluster:
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


async def test_a_replica_that_was_away_for_10_000_commands_catches_up(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (cluster, client):
        victim = backup_of(cluster, client)
        victim.kill()
        await client.rename(10_000)
        victim.start()
        state = await converged(client.caller.stubs)
        assert state.op == 1 + 300 + 10_000


async def test_a_replica_whose_disk_was_wiped_comes_back(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (cluster, client):
        victim = backup_of(cluster, client)
        victim.kill()
        shutil.rmtree(victim.data)
        await client.rename(50)
        victim.start()
        await converged(client.caller.stubs)
        # It counts again: the other backup can go.
        other = next(r for r in cluster.replicas if r is not victim and r.index != client.primary)
        other.kill()
        await client.rename(20, concurrency=1)


async def test_a_replica_with_a_damaged_journal_is_mended_or_says_so(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (cluster, client):
        victim = backup_of(cluster, client)
        victim.kill()
        journal = max((victim.data).glob("wal-*.log"), key=lambda path: path.stat().st_mtime_ns)
        written = len(journal.read_bytes().rstrip(b"\0"))
        flip(journal, written // 2)
        await client.rename(50)
        victim.start()
        await asyncio.sleep(0.5)
        if victim.is_running:
            await converged(client.caller.stubs)
        else:
            assert "damaged" in victim.log_text()
            await client.rename(50)


async def test_a_wrong_secret_or_name_lets_nobody_in(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (cluster, client):
        victim = backup_of(cluster, client)
        victim.kill()
        members = [
            f"127.0.0.1:{cluster.links[victim.index, other].port}" if other != victim.index else "127.0.0.1:1"
            for other in range(3)
        ]
        ports = (free_port(), free_port())
        stranger = ReplicaProcess(
            tmp_path / "stranger", victim.index, members, ports, {"CLUSTER_SECRET": "not the secret of the cluster"}
        )
        (tmp_path / "stranger").mkdir()
        stranger.start()
        other_name = ReplicaProcess(
            tmp_path / "renamed", victim.index, members, (free_port(), free_port()), {"CLUSTER_NAME": "other"}
        )
        (tmp_path / "renamed").mkdir()
        other_name.start()
        try:
            await eventually("the wrong secret is told", lambda: "secret" in stranger.log_text())
            await eventually("the other name is told", lambda: "cluster" in other_name.log_text())
        finally:
            stranger.kill()
            other_name.kill()
        await client.rename(50)
        victim.start()
        await converged(client.caller.stubs)
