"""A replica that lost data recovers by itself, or reports what it needs (CTL-5, CTL-6)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateStream
from tests.faults.metadata.clients import Caller, NotTaken
from tests.faults.metadata.cluster import converged, current, running_cluster
from tests.faults.metadata.prepared import backup_of, eventually, prepared
from tests.faults.segment_files import flip

pytestmark = pytest.mark.timeout(300)

# Time after which an idle journal has recorded that all of it is durable. Before that, damage to its last write cannot
# be distinguished from an unfinished write.
SEALED_SECONDS = 5.0


@pytest.mark.long
async def test_a_replica_that_was_away_for_10_000_commands_catches_up(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (cluster, client):
        victim = backup_of(cluster, client)
        victim.kill()
        await client.rename(10_000)
        victim.start()
        state = await converged(client.caller.stubs)
        assert client.may_have_made(state.op, 1 + 300 + 10_000)


async def test_a_replica_whose_disk_was_wiped_comes_back(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (cluster, client):
        victim = backup_of(cluster, client)
        victim.kill()
        shutil.rmtree(victim.data)
        await client.rename(50)
        victim.start()
        await converged(client.caller.stubs)
        # The recovered replica counts for the quorum again: the other backup can stop.
        other = next(r for r in cluster.replicas if r is not victim and r.index != client.primary)
        other.kill()
        await client.rename(20, concurrency=1)


def damage_newest(directory: Path) -> tuple[Path, bytes]:
    """Change a byte in the newest command of a journal; return the file and its original content."""
    journal = max(directory.glob("wal-*.log"), key=lambda path: path.stat().st_mtime_ns)
    whole = journal.read_bytes()
    position = whole.rfind(b"name 2")
    assert position > 0
    flip(journal, position)
    return journal, whole


async def test_a_replica_with_a_damaged_journal_entry_fetches_it_from_a_peer(tmp_path: Path) -> None:
    # No checkpoint, because a checkpoint would make the damaged entry superfluous.
    async with prepared(tmp_path, {}) as (cluster, client):
        victim = backup_of(cluster, client)
        await asyncio.sleep(SEALED_SECONDS)
        victim.kill()
        damage_newest(victim.data)
        await client.rename(50)
        victim.start()
        state = await converged(client.caller.stubs)
        assert client.may_have_made(state.op, 1 + 300 + 50)
        await eventually("it is reported", lambda: "are damaged and are fetched from the peers" in victim.log_text())


@pytest.mark.long
async def test_a_replica_that_is_alone_refuses_a_damaged_journal(tmp_path: Path) -> None:
    """No other replica has the damaged entry: the replica reports the remedy, changes nothing, and starts when the file
    is restored.
    """
    async with running_cluster(tmp_path, count=1, settings={"SYSTEM_STATE_SNAPSHOT_COMMANDS": "100000"}) as cluster:
        (replica,) = cluster.replicas
        caller = Caller(cluster.replicas, timeout_seconds=5.0)
        for number in range(20):
            command = Command(create_stream=CreateStream(name=f"name 2{number}"))
            # A repeated command may have been applied although its answer came too late.
            done = {Status.OK, Status.STREAM_NAME_ALREADY_EXISTS}
            while await asyncio.wait_for(taken(caller, command), 30) not in done:
                await asyncio.sleep(0.05)
        before = await current(caller.stubs[0])
        await asyncio.sleep(SEALED_SECONDS)
        replica.kill()
        journal, whole = damage_newest(replica.data)
        damaged = {file.name: file.read_bytes() for file in replica.data.iterdir()}
        for _ in range(2):
            replica.start()
            assert await asyncio.to_thread(replica.process.wait, 30) == 1
            (line,) = [line for line in replica.log_text().splitlines() if line.startswith("error: ")][-1:]
            assert str(replica.data) in line
            assert "restore the directory from a backup" in line
            assert {file.name: file.read_bytes() for file in replica.data.iterdir()} == damaged
        journal.write_bytes(whole)
        replica.start()
        assert await current(caller.stubs[0]) == before
        await caller.close()
        assert replica.stop() == 0


async def taken(caller: Caller, command: Command) -> Status | None:
    """Propose to a replica that may not be running yet."""
    try:
        return await caller.propose(0, command)
    except NotTaken:
        return None
