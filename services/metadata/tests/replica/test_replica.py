"""The replica over a native one: applies once and in order, answers, restores, stops at unknown commands (CTL-2)."""

import asyncio

import pytest
from fake_native import FakeNative
from metadata_commands import create_stream, create_topic

from headrace_metadata.errors import (
    AppendFailedError,
    NotPrimaryError,
    OutcomeUnknownError,
    ReplicaBusyError,
    ReplicaStoppedError,
)
from headrace_metadata.replica import Replica
from headrace_metadata.state_machine import StateMachine
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, Reply, StateSnapshot


class Following:
    def __init__(self, replica):
        self.updates = []
        self.catalogs = []
        self.snapshot = replica.state.subscribe(self.updates.append, self.catalogs.append)

    @property
    def versions(self):
        return [update.version for update in self.updates]


async def handed_over():
    """Wait one turn of the event loop, after which proposals have reached the native replica."""
    for _ in range(3):
        await asyncio.sleep(0)


def stream_names(replica):
    return [stream.name for stream in replica.state.catalog().streams]


async def test_a_proposal_is_answered_after_subscribers_know():
    native = FakeNative()
    async with await Replica.open(native) as replica:
        following = Following(replica)
        reply = await replica.propose(create_stream("s"))
        assert (reply.status, reply.stream.id, reply.stream.incarnation) == (0, 0, 1)
        assert following.versions == [1]
        assert native.applied_replies == {1: [reply.SerializeToString()]}
        assert (await replica.propose(create_stream("s"))).status == Status.STREAM_NAME_ALREADY_EXISTS
    assert native.stopped


async def test_commands_of_one_op_have_numbers_and_times_of_their_own():
    native = FakeNative(commit_at_once=False)
    async with await Replica.open(native) as replica:
        proposals = [asyncio.create_task(replica.propose(create_stream(name))) for name in "abc"]
        await handed_over()
        native.commit_waiting()
        replies = await asyncio.gather(*proposals)
        assert [reply.stream.incarnation for reply in replies] == [1, 2, 3], "incarnations are never shared"
        times = [reply.stream.created_at_micros for reply in replies]
        assert times == sorted(set(times))
        native.commit([])
        native.commit([(0, create_stream("from elsewhere").SerializeToString())])
        await replica.synchronise()
        assert replica.state.op == 4
        assert [entry.number for entry in replica.state.last_commands(2)] == [3, 4]


async def test_two_replicas_of_one_log_are_equal_byte_for_byte():
    commands = [create_stream("a"), create_topic(0, "t", 3), create_stream("a"), create_topic(9, "t")]
    snapshots, replies = [], []
    for _ in range(2):
        native = FakeNative()
        async with await Replica.open(native) as replica:
            native.commit([(0, commands[0].SerializeToString())])
            native.commit([(0, command.SerializeToString()) for command in commands[1:]])
            await replica.synchronise()
            snapshots.append(replica.state.fork_machine().snapshot().SerializeToString(deterministic=True))
            replies.append(native.applied_replies)
    assert snapshots[0] == snapshots[1]
    assert replies[0] == replies[1]


async def test_refusals_are_distinguished():
    native = FakeNative(primary=2)
    async with await Replica.open(native) as replica:
        with pytest.raises(NotPrimaryError) as refused:
            await replica.propose(create_stream("s"))
        assert refused.value.primary == 2
        with pytest.raises(NotPrimaryError):
            await replica.synchronise()
        native.primary, native.commit_at_once = 0, False
        reasons = {
            "not_primary": NotPrimaryError,
            "busy": ReplicaBusyError,
            "storage": AppendFailedError,
            "unknown": OutcomeUnknownError,
        }
        for reason, error in reasons.items():
            proposal = asyncio.create_task(replica.propose(create_stream("s")))
            await handed_over()
            native.emit("refused", native.tickets, reason, -1)
            with pytest.raises(error):
                await proposal
        proposal = asyncio.create_task(replica.propose(create_stream("s")))
        await handed_over()
        native.emit("refused", native.tickets, "oversize", -1)
        assert (await proposal).status == Status.INVALID_COMMAND
    assert stream_names(replica) == []


async def test_a_command_without_an_operation_is_not_proposed():
    native = FakeNative()
    async with await Replica.open(native) as replica:
        assert (await replica.propose(Command(actor_user_id=1))).status == Status.INVALID_COMMAND
        assert native.tickets == 0


async def test_a_checkpoint_is_of_its_op_while_applying_goes_on_and_can_be_restored():
    native = FakeNative()
    async with await Replica.open(native) as replica:
        native.commit([(0, create_stream("before").SerializeToString())])
        native.emit("checkpoint", 1)
        native.commit([(0, create_stream("after").SerializeToString())])
        while not native.checkpoints:
            await asyncio.sleep(0.001)
    machine = StateMachine.restore(StateSnapshot.FromString(native.checkpoints[1]))
    assert [stream.name for stream in machine.catalog().streams] == ["before"]

    other = FakeNative(state=(1, native.checkpoints[1]))
    async with await Replica.open(other) as replica:
        following = Following(replica)
        other.commit([(0, create_stream("after").SerializeToString())])
        await replica.synchronise()
        assert other.restored_ops == [1]
        assert stream_names(replica) == ["before", "after"]
        assert following.versions[-1] == 2


async def test_subscribers_receive_the_catalog_when_the_state_is_replaced():
    """CTL-5: a replica that lagged too far behind is sent a checkpoint while it runs."""
    native = FakeNative()
    async with await Replica.open(native) as replica:
        following = Following(replica)
        await replica.propose(create_stream("old"))
        ahead = StateMachine()
        for number in range(1, 6):
            ahead.apply(number, number * 10, create_stream(f"s{number}"))
        native.op = 9
        native.emit("restore", 9, ahead.snapshot().SerializeToString())
        assert (await replica.propose(create_stream("new"))).stream.incarnation == 6
        assert [len(catalog.streams) for catalog in following.catalogs] == [5]
        assert following.versions == [1, 6]


@pytest.mark.parametrize("command", [b"\xff\xff", Command(actor_user_id=1).SerializeToString()])
async def test_an_unknown_command_stops_the_replica(command):
    native = FakeNative()
    async with await Replica.open(native) as replica:
        native.commit([(0, command)])
        native.commit([(0, create_stream("never").SerializeToString())])
        with pytest.raises(ReplicaStoppedError, match="newer one"):
            await replica.wait_stopped()
        with pytest.raises(ReplicaStoppedError):
            await replica.propose(create_stream("s"))
        assert stream_names(replica) == []
        assert native.applied_replies == {}


async def test_a_halt_fails_what_is_in_flight():
    native = FakeNative(commit_at_once=False)
    async with await Replica.open(native) as replica:
        proposal = asyncio.create_task(replica.propose(create_stream("s")))
        await handed_over()
        native.emit("stopped", "the disk is gone")
        with pytest.raises(ReplicaStoppedError, match="the disk is gone"):
            await proposal
        native.fail_with = RuntimeError("stopped")
        with pytest.raises(ReplicaStoppedError):
            await replica.synchronise()


async def test_a_failing_subscriber_stops_the_replica():
    def broken(_):
        raise RuntimeError("cannot take it")

    async with await Replica.open(FakeNative()) as replica:
        replica.state.subscribe(broken, broken)
        with pytest.raises(ReplicaStoppedError, match="cannot take it"):
            await replica.propose(create_stream("s"))


async def test_a_cancelled_proposal_is_applied_all_the_same():
    native = FakeNative(commit_at_once=False)
    async with await Replica.open(native) as replica:
        proposal = asyncio.create_task(replica.propose(create_stream("s")))
        await handed_over()
        proposal.cancel()
        native.commit_waiting()
        await replica.synchronise()
        assert stream_names(replica) == ["s"]
        assert Reply.FromString(native.applied_replies[1][0]).stream.name == "s"


async def test_closing_waits_for_what_is_in_flight_and_hands_over():
    native = FakeNative(commit_at_once=False)
    replica = await Replica.open(native)
    proposal = asyncio.create_task(replica.propose(create_stream("s")))
    await handed_over()
    closing = asyncio.create_task(replica.close())
    await handed_over()
    native.commit_waiting()
    await closing
    assert (await proposal).status == 0
    assert native.abdicated
    assert native.stopped
    await replica.wait_stopped()
    with pytest.raises(ReplicaStoppedError, match="closed"):
        await replica.propose(create_stream("t"))


async def test_roles_are_reported():
    native = FakeNative()
    async with await Replica.open(native) as replica:
        roles = []
        replica.on_role(roles.append)
        native.emit("role", "view_change", 2, -1)
        native.emit("role", "backup", 2, 1)
        await replica.synchronise()
        assert roles == ["recovering", "primary", "view_change", "backup"]
        assert replica.role == "backup"
