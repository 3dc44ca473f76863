"""A single replica with its files: the same state after any end, or a refusal with the reason (LOG-13, CTL-5)."""

import asyncio
import json

import pytest
from metadata_commands import create_stream, create_user
from metadata_native import alone

import headrace_core
from headrace_metadata.errors import ReplicaStoppedError
from headrace_metadata.replica import Replica
from headrace_proto.metadata.v1 import Command, CreateStream


async def opened(directory, **state):
    replica = await Replica.open(alone(directory, **state))
    await replica.wait_recovered()
    return replica


def snapshot(replica):
    return replica.state.fork_machine().snapshot().SerializeToString(deterministic=True)


async def test_what_was_answered_is_there_after_a_restart(tmp_path):
    async with await opened(tmp_path / "new" / "replica") as replica:
        assert replica.role == "primary"
        assert (await replica.propose(create_stream("s"))).stream.incarnation == 1
        before = snapshot(replica)
    async with await opened(tmp_path / "new" / "replica") as replica:
        assert snapshot(replica) == before
        assert (await replica.propose(create_stream("t"))).stream.incarnation == 2


async def test_restarts_across_checkpoints_end_in_the_same_state(tmp_path):
    """CTL-5: restart from a checkpoint and the log after it."""
    before = None
    for life in range(4):
        async with await opened(tmp_path, snapshot_commands=16) as replica:
            assert before is None or snapshot(replica) == before
            for number in range(40):
                assert (await replica.propose(create_stream(f"{life} {number}"))).status == 0
            before = snapshot(replica)
            # The checkpoint is written on a thread of its own, which may be delayed.
            while replica.status()["checkpoint_op"] < 16:
                await asyncio.sleep(0.01)
    # The state is equal byte for byte.
    async with await opened(tmp_path) as replica:
        assert replica.state.op == 160


async def test_proposals_that_wait_together_share_a_sync(tmp_path):
    async with await opened(tmp_path) as replica:
        commits = replica.status()["storage"]["group_commits"]
        replies = await asyncio.gather(*(replica.propose(create_stream(f"s{number}")) for number in range(500)))
        assert [reply.stream.id for reply in replies] == list(range(500)), "in the order of the proposals"
        assert replica.status()["storage"]["group_commits"] - commits < 100


async def test_files_are_for_their_owner_only(tmp_path):
    async with await opened(tmp_path / "replica", snapshot_commands=1) as replica:
        await replica.propose(create_user("root"))
        while not replica.status()["checkpoint_op"]:
            await asyncio.sleep(0.01)
    for path in (tmp_path / "replica").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


async def test_a_directory_has_one_owner(tmp_path):
    async with await opened(tmp_path):
        with pytest.raises(headrace_core.ReplicaError) as refused:
            await Replica.open(alone(tmp_path))
        assert refused.value.reason == "directory_in_use"
    async with await opened(tmp_path):
        pass


async def test_a_directory_of_another_cluster_is_refused(tmp_path):
    """CTL-6: the name must match."""
    async with await opened(tmp_path) as replica:
        await replica.propose(create_stream("s"))
    document = json.dumps({"directory": str(tmp_path), "cluster": "other", "replica": 0, "replicas": [""]})
    with pytest.raises(headrace_core.ReplicaError) as refused:
        await Replica.open(headrace_core.MetadataReplica(document))
    assert refused.value.reason == "other_cluster"
    async with await opened(tmp_path) as replica:
        assert len(replica.state.catalog().streams) == 1


async def test_a_closed_replica_takes_no_more(tmp_path):
    replica = await opened(tmp_path)
    proposals = [asyncio.create_task(replica.propose(create_stream(f"s{number}"))) for number in range(50)]
    await asyncio.sleep(0)
    await replica.close()
    assert all(reply.status == 0 for reply in await asyncio.gather(*proposals))
    with pytest.raises(ReplicaStoppedError):
        await replica.propose(create_stream("late"))
    async with await opened(tmp_path) as replica:
        assert len(replica.state.catalog().streams) == 50


async def test_a_command_that_is_too_large_is_refused_and_nothing_else(tmp_path):
    async with await opened(tmp_path) as replica:
        huge = Command(create_stream=CreateStream(name="n" * (64 * 1024 * 1024)))
        assert (await replica.propose(huge)).status != 0
        assert (await replica.propose(create_stream("s"))).status == 0
