"""Client side of a session: a command is applied once, and its outcome is never guessed (CTL-1)."""

import asyncio

import grpc
import pytest
from scripted import Scripted, connections, create_stream, fails

from headrace_metadata_client import (
    CommandNotTakenError,
    OutcomeUnknownError,
    Session,
    SessionEndedError,
    SessionPool,
    UnauthenticatedError,
)
from headrace_proto.metadata.v1 import OpenSessionResponse, ProposeResponse, Reply


async def test_a_command_in_doubt_keeps_its_number():
    replica = Scripted(fails(grpc.StatusCode.ABORTED), fails(grpc.StatusCode.UNAVAILABLE))
    session = Session([replica])
    await session.propose(create_stream("a"))
    await session.propose(create_stream("b"))
    assert replica.asked == [(1, 1), (1, 1), (1, 1), (1, 2)]
    assert session.repeats == 1


async def test_a_session_that_ended_is_opened_anew_only_when_nothing_is_in_doubt():
    ended = fails(grpc.StatusCode.NOT_FOUND)
    replica = Scripted(fails(grpc.StatusCode.RESOURCE_EXHAUSTED), ended)
    session = Session([replica])
    await session.propose(create_stream("a"))
    assert replica.asked == [(1, 1), (1, 1), (2, 1)]

    replica.script = [fails(grpc.StatusCode.DEADLINE_EXCEEDED), ended]
    with pytest.raises(SessionEndedError):
        await session.propose(create_stream("b"))
    await session.propose(create_stream("c"))
    assert replica.asked[3:] == [(2, 2), (2, 2), (3, 1)]


async def test_out_of_time_says_whether_the_command_may_be_applied():
    session = Session([Scripted(*[fails(grpc.StatusCode.FAILED_PRECONDITION, 0)] * 100_000)])
    with pytest.raises(CommandNotTakenError):
        await session.propose(create_stream("a"), timeout_seconds=0.1)
    session = Session([Scripted(*[fails(grpc.StatusCode.UNAVAILABLE)] * 100_000)])
    with pytest.raises(OutcomeUnknownError):
        await session.propose(create_stream("a"), timeout_seconds=0.1)


async def test_the_primary_that_is_named_is_asked_next():
    backups = [Scripted(*[fails(grpc.StatusCode.FAILED_PRECONDITION, 2)] * 9) for _ in range(2)]
    primary = Scripted()
    session = Session([*backups, primary])
    for name in "abc":
        await session.propose(create_stream(name))
    assert len(primary.asked) == 3
    assert sum(len(backup.asked) for backup in backups) <= 1


async def test_replicas_that_name_each_other_are_not_asked_without_a_pause(monkeypatch):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    replicas = [Scripted(*[fails(grpc.StatusCode.FAILED_PRECONDITION, other)] * 10) for other in (1, 0)]
    await Session(replicas).propose(create_stream("a"))
    asked = sum(len(replica.asked) for replica in replicas)
    assert asked > 10
    assert len(pauses) == (asked - 1) // 2


async def test_a_caller_that_is_not_let_in_learns_it():
    session = Session([Scripted(fails(grpc.StatusCode.UNAUTHENTICATED))])
    with pytest.raises(UnauthenticatedError):
        await session.propose(create_stream("a"))


@pytest.mark.parametrize("refusal", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT])
async def test_a_refusal_by_another_replica_leaves_a_command_in_doubt(refusal):
    session = Session([Scripted(fails(grpc.StatusCode.DEADLINE_EXCEEDED), fails(refusal))])
    with pytest.raises(OutcomeUnknownError, match="refuses to report"):
        await session.propose(create_stream("a"))


class Slow:
    """A replica that answers on request; records the number of concurrent calls."""

    def __init__(self):
        self.sessions = self.closed = self.asked = 0
        self.was_asked, self.gate = asyncio.Event(), asyncio.Event()

    async def OpenSession(self, _request, **_):  # noqa: N802
        self.sessions += 1
        return OpenSessionResponse(session=self.sessions)

    async def CloseSession(self, _request, **_):  # noqa: N802
        self.closed += 1

    async def Propose(self, _request, **_):  # noqa: N802
        self.asked += 1
        self.was_asked.set()
        await self.gate.wait()
        return ProposeResponse(reply=Reply())


async def test_a_pool_has_several_commands_in_flight_and_no_more_than_it_may():
    replica = Slow()
    pool = SessionPool(connections(replica), sessions_max=3)
    proposing = [asyncio.create_task(pool.propose(create_stream(str(number)))) for number in range(5)]
    while replica.asked < 3:
        await asyncio.sleep(0)
    # The other two have arrived by this time.
    await asyncio.sleep(0.05)
    assert (replica.sessions, replica.asked) == (3, 3)
    replica.gate.set()
    await asyncio.gather(*proposing)
    assert (replica.sessions, replica.asked) == (3, 5)
    await pool.propose(create_stream("alone"))
    assert replica.sessions == 3, "a session that is there is used"
    await pool.close()
    assert replica.closed == 3


async def test_a_command_does_not_wait_for_its_turn_for_ever():
    replica = Slow()
    pool = SessionPool(connections(replica), sessions_max=1, timeout_seconds=0.2)
    first = asyncio.create_task(pool.propose(create_stream("first")))
    await replica.was_asked.wait()
    others = [asyncio.create_task(pool.propose(create_stream(str(number)))) for number in range(3)]
    refused = await asyncio.gather(*others, return_exceptions=True)
    assert replica.asked == 1
    assert {type(refusal) for refusal in refused} == {CommandNotTakenError}
    replica.gate.set()
    await first
    await pool.propose(create_stream("next"))
    assert replica.asked == 2


async def test_a_session_in_doubt_does_not_stop_a_pool():
    replica = Scripted(*[fails(grpc.StatusCode.UNAVAILABLE)] * 100_000)
    pool = SessionPool(connections(replica), sessions_max=1, timeout_seconds=0.1)
    with pytest.raises(OutcomeUnknownError):
        await pool.propose(create_stream("a"))
    assert pool.repeats == 1
    replica.script.clear()
    await pool.propose(create_stream("b"))
