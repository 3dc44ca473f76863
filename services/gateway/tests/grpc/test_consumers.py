"""Credit and acknowledgements of consumers over gRPC (GW-6)."""

import asyncio
from types import SimpleNamespace

import pytest

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_chassis.places import address_of
from headrace_gateway.grpc.delivery.batches import BATCH_BYTES, Pace
from headrace_gateway.grpc.delivery.consumer import Allowance, Conversation
from headrace_gateway.grpc.delivery.membership import Member
from headrace_gateway.grpc.delivery.reading import Subscription
from headrace_gateway.grpc.start_positions import Consumer
from headrace_node.connections.sessions import Response
from headrace_proto.errors import Status
from headrace_proto.gateway import v1


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:4711", ("127.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:[::1]:4711", ("::1", 4711)),
        ("unix:/run/socket", ("", 0)),
    ],
)
def test_addresses_are_those_of_the_other_listeners(peer, address):
    assert address_of(peer) == address


def test_of_what_is_not_limited_there_is_any_number():
    allowance = Allowance(v1.Credit())
    allowance.spend(10**9, 10**12)
    assert not allowance.is_limited
    assert not allowance.is_used_up
    assert allowance.count_of(7) == 7


@pytest.mark.parametrize("limited", ["messages", "bytes"])
def test_credit_is_used_up_and_given(limited):
    allowance = Allowance(v1.Credit(**{limited: 5}))
    allowance.spend(4, 4)
    assert not allowance.is_used_up
    allowance.spend(4, 4)
    assert allowance.is_used_up, "and not below nothing"
    allowance.grow(v1.Credit(**{limited: 2}))
    assert not allowance.is_used_up
    assert allowance.count_of(7) == (2 if limited == "messages" else 7)


def test_batches_keep_about_their_size():
    pace = Pace(1000)
    counts = []
    for _ in range(5):
        counts.append(pace.count)
        pace.seen(pace.count, 100 * pace.count)
    assert counts == [16, 64, 256, 1000, 1000], "small messages: as many as are wanted, after a while"
    pace.seen(1000, 1000 * BATCH_BYTES // 10)
    assert pace.count == 10
    pace.seen(1, 50 * BATCH_BYTES)
    assert pace.count == 1
    pace.seen(1, 0)
    assert pace.count == 4


async def requests_of(*requests):
    for request in requests:
        yield request


async def test_what_was_said_before_the_end_counts():
    conversation = Conversation(v1.Credit())
    conversation.sent(3)
    steps = [{"acknowledge": v1.Acknowledge(partition_id=3, offset=offset)} for offset in (1, 2)]
    steps += [{"finish": v1.ConsumeRequest.Finish()}, {"acknowledge": v1.Acknowledge(partition_id=9, offset=1)}]
    async with conversation.listening(requests_of(*(v1.ConsumeRequest(**step) for step in steps))):
        while not conversation.is_over:
            await conversation.news()
        assert conversation.take_acknowledged() == {3: 2}
        assert conversation.take_acknowledged() == {}


async def test_news_is_not_missed():
    conversation = Conversation(v1.Credit(messages=1))
    conversation.allowance.spend(1, 1)

    async def later():
        yield v1.ConsumeRequest(credit=v1.Credit(messages=1))
        await asyncio.Event().wait()

    async with conversation.listening(later()):
        async with asyncio.timeout(30):
            while conversation.allowance.is_used_up:
                await conversation.news()


class RefusingSession:
    def __init__(self, status):
        self.status = status

    async def call(self, code, payload=b""):
        return Response(self.status, b"")


async def test_a_member_who_is_too_slow_loses_the_partition_and_nothing_else():
    subscription = Subscription("s", "t", Consumer("g", is_group=True), auto_commit=False)
    await Member(RefusingSession(Status.NOT_RESOLVED_CONSUMER), subscription, 1)._store(0, 5)
    with pytest.raises(Refused):
        await Member(RefusingSession(Status.UNAUTHORIZED), subscription, 1)._store(0, 5)


@pytest.mark.parametrize(
    ("partition_id", "offset", "is_outstanding"),
    [(9, 0, True), (9, 11, True), (1, 11, True), (3, 9, True), (3, 10, False)],
)
async def test_a_batch_is_outstanding_until_its_own_partition_is_acknowledged(partition_id, offset, is_outstanding):
    """Regression: an acknowledgement of a higher partition counted, and the batch was sent again."""
    subscription = Subscription("s", "t", Consumer("g", is_group=True), auto_commit=False)
    member = Member(RefusingSession(Status.OK), subscription, 1)
    member._outstanding = 3, 10
    conversation = Conversation(v1.Credit())
    conversation.sent(partition_id)
    acknowledge = v1.Acknowledge(partition_id=partition_id, offset=offset)
    steps = [v1.ConsumeRequest(acknowledge=acknowledge), v1.ConsumeRequest(finish=v1.ConsumeRequest.Finish())]
    async with conversation.listening(requests_of(*steps)):
        while not conversation.is_over:
            await conversation.news()
    await member._store_acknowledged(conversation)
    assert (member._outstanding is not None) is is_outstanding


class SlowSession:
    is_reusable = True

    def __init__(self):
        self.commands = []
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def call(self, code, payload=b""):
        self.commands.append((code, payload))
        self.is_asked.set()
        await self.may_answer.wait()
        return Response(Status.OK, b"")


async def test_an_acknowledgement_right_before_the_end_is_stored():
    """Regression: one that arrived with the end, while the one before it was stored, was dropped."""
    subscription = Subscription("s", "t", Consumer("g", is_group=True), auto_commit=False)
    session = SlowSession()
    member = Member(session, subscription, 1)
    member._outstanding = 3, 9
    conversation = Conversation(v1.Credit())
    conversation.sent(3)

    async def requests():
        yield v1.ConsumeRequest(acknowledge=v1.Acknowledge(partition_id=3, offset=5))
        await session.is_asked.wait()
        yield v1.ConsumeRequest(acknowledge=v1.Acknowledge(partition_id=3, offset=9))
        yield v1.ConsumeRequest(finish=v1.ConsumeRequest.Finish())

    async def sent():
        caller = SimpleNamespace(verify=lambda: None)
        return [part async for part in member.parts(caller, conversation, None)]

    async with asyncio.timeout(30), conversation.listening(requests()):
        ending = asyncio.create_task(sent())
        while not conversation.is_finished:
            await asyncio.sleep(0)
        session.may_answer.set()
        assert await ending == []
    stored = [
        core.encode_store_consumer_offset(
            stream="s", topic="t", consumer="g", is_group=True, partition=3, offset=offset
        )
        for offset in (5, 9)
    ]
    assert session.commands == [*stored, core.encode_leave_consumer_group(stream="s", topic="t", group="g")]
