"""Consumer group memberships begin by commands of connections, and end with the connections (CTL-8)."""

import asyncio

import pytest

from headrace_gateway.control.memberships import _SETTLING_POLLS
from headrace_proto.catalog.v1 import ConsumerGroup
from headrace_proto.control.v1 import ClientGone, Request
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    Command,
    CompletedRevocation,
    CompleteRevocation,
    CreateConsumerGroup,
    DeleteConsumerGroup,
    ForgetClient,
    Gateway,
    GatewayHeartbeat,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    Pulse,
    ReplaceGateway,
    Reply,
)

# Values of the fixtures.
GATEWAY, CLIENT, NOW = 4711, 7, 1_700_000_000_000_000
PATH = {"stream_id": 1, "topic_id": 2, "group_id": 3}
FORGET = Command(forget_client=ForgetClient(gateway_id=GATEWAY, client_id=CLIENT))


@pytest.fixture
def gone(control):
    """Report a closed connection."""

    async def send():
        return await control.handle(Request(client_id=CLIENT, client_gone=ClientGone()))

    return send


async def test_a_group_gets_the_configured_timeout(command, metadata):
    metadata.reply = Reply(consumer_group=ConsumerGroup(id=3, name="g"))
    reply = await command(create_consumer_group=CreateConsumerGroup(stream_id=1, topic_id=2, name="g"))
    assert reply.consumer_group == ConsumerGroup(id=3, name="g")
    assert metadata.commands[0].create_consumer_group.revocation_timeout_micros == 30_000_000


async def test_connections_join_and_leave_in_the_name_of_their_gateway(command, metadata):
    """The gateway overwrites the gateway and client ids that a front sends."""
    await command(join_consumer_group=JoinConsumerGroup(**PATH, client_id=99, gateway=Gateway(id=1, name="there")))
    await command(leave_consumer_group=LeaveConsumerGroup(**PATH, gateway_id=1, client_id=99))
    await command(delete_consumer_group=DeleteConsumerGroup(**PATH))
    gateway = Gateway(id=GATEWAY, name="here", timeout_micros=20_000_000)
    assert metadata.commands == [
        Command(actor_user_id=3, join_consumer_group=JoinConsumerGroup(**PATH, gateway=gateway, client_id=CLIENT)),
        Command(actor_user_id=3, leave_consumer_group=LeaveConsumerGroup(**PATH, gateway_id=GATEWAY, client_id=CLIENT)),
        Command(actor_user_id=3, delete_consumer_group=DeleteConsumerGroup(**PATH)),
    ]


@pytest.mark.parametrize("pending", [0, 3, 10_000])
async def test_who_joins_waits_a_moment_for_its_partitions(command, metadata, pending):
    """The wait is bounded."""
    metadata.partitions_await = pending
    async with asyncio.timeout(30):
        reply = await command(join_consumer_group=JoinConsumerGroup(**PATH))
    assert reply.status == Status.OK
    assert metadata.asked_for_partitions == min(pending + 1, _SETTLING_POLLS)


async def test_a_refused_join_waits_for_nothing(command, metadata):
    metadata.reply = Reply(status=Status.CONSUMER_GROUP_ID_NOT_FOUND)
    reply = await command(join_consumer_group=JoinConsumerGroup(**PATH))
    assert reply.status == Status.CONSUMER_GROUP_ID_NOT_FOUND
    assert metadata.asked_for_partitions == 0


async def test_a_closed_connection_leaves_every_group(gone, metadata):
    metadata.members = {GATEWAY: {CLIENT}, 1: {CLIENT}}
    metadata.on_propose = lambda _: metadata.members[GATEWAY].clear()
    assert (await gone()).status == Status.OK
    assert metadata.commands == [FORGET]


async def test_who_is_no_member_needs_no_command(gone, metadata):
    metadata.members = {GATEWAY: {8}, 1: {CLIENT}}
    await gone()
    assert metadata.commands == []


async def test_leaving_is_tried_until_it_is_done(gone, metadata):
    """Further notices during the retries are duplicates."""
    metadata.members = {GATEWAY: {CLIENT}}
    metadata.failure = RuntimeError("not now")
    leaving = asyncio.create_task(gone())
    await asyncio.sleep(0.02)
    await gone()
    assert not leaving.done()
    metadata.failure = None
    metadata.on_propose = lambda _: metadata.members[GATEWAY].clear()
    async with asyncio.timeout(30):
        await leaving
    assert metadata.commands == [FORGET]


async def test_who_closes_while_joining_leaves_afterwards(command, gone, metadata):
    """The membership ends, whichever of join and leave is proposed first."""
    may_join = metadata.gate = asyncio.Event()
    joining = asyncio.create_task(command(join_consumer_group=JoinConsumerGroup(**PATH)))
    await asyncio.sleep(0)
    leaving = asyncio.create_task(gone())
    await asyncio.sleep(0.01)
    assert metadata.commands == []

    def follow(proposed):
        metadata.members = {GATEWAY: {CLIENT} if proposed.HasField("join_consumer_group") else set()}

    metadata.on_propose = follow
    may_join.set()
    await asyncio.gather(joining, leaving)
    assert [proposed.WhichOneof("operation") for proposed in metadata.commands] == [
        "join_consumer_group",
        "forget_client",
    ]


async def test_completed_revocations_are_passed_on(control, metadata):
    moved = [CompletedRevocation(partition_id=4, incarnation=11), CompletedRevocation(partition_id=5, incarnation=11)]
    completed = CompleteRevocation(**PATH, group_key=9, revocations=moved)
    assert (await control.handle(Request(complete_revocation=completed))).status == Status.OK
    assert metadata.commands == [Command(complete_revocation=completed)]


async def test_nothing_is_proposed_when_there_are_no_members(memberships, metadata):
    await memberships.started()
    await memberships.check()
    assert metadata.commands == []


async def test_members_are_kept_alive_and_time_is_reported(memberships, metadata):
    metadata.members = {GATEWAY: {CLIENT}}
    await memberships.check()
    metadata.pulse_due_at = NOW
    await memberships.check()
    heartbeat = Command(gateway_heartbeat=GatewayHeartbeat(gateway_id=GATEWAY))
    assert metadata.commands == [heartbeat, heartbeat, Command(pulse=Pulse())]


async def test_a_failure_does_not_end_the_watch(memberships, metadata):
    metadata.members = {GATEWAY: {CLIENT}}
    metadata.failure = RuntimeError("not now")
    watch = asyncio.create_task(memberships.run())
    await asyncio.sleep(0.05)
    metadata.failure = None
    async with asyncio.timeout(30):
        while not metadata.commands:
            await asyncio.sleep(0.01)
    watch.cancel()


async def test_a_new_run_ends_what_earlier_ones_left(memberships, metadata):
    metadata.gateways = {"here": {1, GATEWAY}, "there": {2}}
    await memberships.started()
    assert metadata.commands == [Command(replace_gateway=ReplaceGateway(gateway_id=GATEWAY, name="here"))]


async def test_a_connection_that_may_have_joined_leaves_in_any_case(command, gone, metadata):
    metadata.failure = CodedFailure()
    assert (await command(join_consumer_group=JoinConsumerGroup(**PATH))).status == Status.DISCONNECTED
    metadata.failure = None
    await gone()
    assert metadata.commands == [Command(actor_user_id=0, forget_client=FORGET.forget_client)]
    await gone()
    assert len(metadata.commands) == 1, "once is enough"


async def test_a_gateway_that_stops_gives_its_members_up(memberships, metadata):
    await memberships.ended()
    assert metadata.commands == [], "it has none"
    metadata.members[GATEWAY] = {CLIENT}
    await memberships.ended()
    assert metadata.commands == [Command(replace_gateway=ReplaceGateway(gateway_id=0, name="here"))]
    metadata.failure = CodedFailure()
    await memberships.ended()


class CodedFailure(Exception):
    code = Status.DISCONNECTED
