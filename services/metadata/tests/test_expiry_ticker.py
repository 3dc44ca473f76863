"""Expiry by the primary: silence counts from when heartbeats could be committed."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from fake_native import FakeNative
from metadata_commands import create_stream, create_topic
from node_commands import register, renew

from headrace_metadata.errors import NotPrimaryError
from headrace_metadata.expiry_ticker import ExpiryTicker
from headrace_metadata.replica import Replica
from headrace_proto.catalog.v1 import NODE_STATUS_LIVE, NODE_STATUS_SILENT
from headrace_proto.metadata.v1 import (
    Command,
    CreateConsumerGroup,
    Gateway,
    GatewayHeartbeat,
    JoinConsumerGroup,
)

GATEWAYS = (100, 200)
TIMEOUT_SECONDS = 20
HEARTBEATS = [Command(gateway_heartbeat=GatewayHeartbeat(gateway_id=gateway_id)) for gateway_id in GATEWAYS]
LEASE_MICROS = TIMEOUT_SECONDS * 1_000_000


class Primary:
    """A replica with a ticker, and a log whose time is controlled by the test."""

    def __init__(self, native, replica):
        self.native = native
        self.replica = replica
        self.ticker = ExpiryTicker(replica)
        self.pass_time(0)

    def pass_time(self, seconds):
        self.native.timestamp_nanos += int(seconds * 1_000_000_000)
        self.native.log_ahead_ns = self.native.timestamp_nanos - time.time_ns()

    async def watch(self, seconds, *heard):
        """Check each second; the commands come with every check."""
        for _ in range(seconds):
            self.pass_time(1)
            for command in heard:
                await self.replica.propose(command)
            await self.ticker.check()

    async def changes_role(self, role, primary):
        self.native.primary = primary
        self.native.emit("role", role, 2, primary)
        async with asyncio.timeout(60):
            while self.replica.role != role:
                await asyncio.sleep(0.001)

    @property
    def members(self):
        """Return the gateways that have members in the group."""
        (group,) = self.replica.state.catalog().consumer_groups
        return [member.gateway_id for member in group.members]

    @property
    def node_statuses(self):
        return [node.status for node in self.replica.state.catalog().nodes]

    def operations(self, after_op=0):
        entries = self.replica.state.last_commands(0)
        return [entry.operation for entry in entries if entry.number > after_op]


def join(gateway_id):
    gateway = Gateway(id=gateway_id, name=f"gateway {gateway_id}", timeout_micros=TIMEOUT_SECONDS * 1_000_000)
    return Command(join_consumer_group=JoinConsumerGroup(gateway=gateway, client_id=1))


@asynccontextmanager
async def watching():
    """Run a primary with a node and a group that has a member at each of two gateways; all have just been heard."""
    native = FakeNative()
    async with await Replica.open(native) as replica:
        await replica.wait_recovered()
        primary = Primary(native, replica)
        await primary.ticker.check()
        group = CreateConsumerGroup(name="g", revocation_timeout_micros=LEASE_MICROS)
        for command in (
            register("a", lease_micros=LEASE_MICROS),
            create_stream("s"),
            create_topic(0, "t", 2),
            Command(create_consumer_group=group),
            *(join(gateway_id) for gateway_id in GATEWAYS),
        ):
            assert (await replica.propose(command)).status == 0
        yield primary


async def test_a_dead_gateway_is_lost_after_its_timeout():
    async with watching() as it:
        await it.watch(TIMEOUT_SECONDS - 1, HEARTBEATS[0])
        assert it.members == list(GATEWAYS)
        assert it.node_statuses == [NODE_STATUS_LIVE]
        await it.watch(1, HEARTBEATS[0])
        assert it.members == [GATEWAYS[0]]
        assert it.node_statuses == [NODE_STATUS_SILENT]
        # A silent node has to be heard: neither an outage nor the primary makes it live.
        it.pass_time(TIMEOUT_SECONDS + 5)
        await it.watch(2)
        assert it.members == [GATEWAYS[0]]
        assert it.node_statuses == [NODE_STATUS_SILENT]


async def test_what_is_due_goes_by_the_time_of_the_log_and_not_by_this_clock():
    """The clock of this machine is decades ahead of those of a majority."""
    async with watching() as it:
        assert it.replica.log_time_micros() < time.time() * 500_000
        before = it.replica.state.op
        await it.watch(TIMEOUT_SECONDS - 1)
        assert it.replica.state.op == before
        await it.watch(1)
        assert it.operations(before) == ["pulse"]


async def test_members_outlast_a_time_without_a_primary():
    """A primary that is elected after a long outage gives every gateway and node its time to be heard."""
    async with watching() as it:
        await it.changes_role("backup", 2)
        await it.ticker.check()
        it.pass_time(TIMEOUT_SECONDS + 5)
        await it.ticker.check()
        await it.changes_role("primary", 0)
        await it.ticker.check()
        await it.watch(TIMEOUT_SECONDS - 1, HEARTBEATS[0], renew(1))
        assert it.members == list(GATEWAYS)
        assert it.node_statuses == [NODE_STATUS_LIVE]
        await it.watch(2, HEARTBEATS[0], renew(1))
        assert it.members == [GATEWAYS[0]]
        assert it.node_statuses == [NODE_STATUS_LIVE]


async def test_members_outlast_the_start_of_a_ticker():
    async with watching() as it:
        it.pass_time(TIMEOUT_SECONDS + 5)
        it.ticker = ExpiryTicker(it.replica)
        await it.watch(TIMEOUT_SECONDS - 1)
        assert it.members == list(GATEWAYS)
        await it.watch(2)
        assert it.members == []


async def test_members_outlast_a_suspended_primary():
    """The primary stays the same, but it could not hear anyone."""
    async with watching() as it:
        await it.watch(1)
        it.pass_time(TIMEOUT_SECONDS + 5)
        await it.watch(TIMEOUT_SECONDS - 1)
        assert it.members == list(GATEWAYS)
        assert it.node_statuses == [NODE_STATUS_LIVE]


async def test_members_outlast_a_primary_without_a_majority(monkeypatch):
    """The checks of a primary that no backup confirms count for nothing, also if it stays the primary."""
    async with watching() as it:
        confirmed = asyncio.Event()
        synchronise = it.replica.synchronise

        async def when_confirmed():
            await confirmed.wait()
            await synchronise()

        with monkeypatch.context() as patched:
            patched.setattr(it.replica, "synchronise", when_confirmed)
            check = asyncio.create_task(it.ticker.check())
            await asyncio.sleep(0)
            it.pass_time(TIMEOUT_SECONDS - 1)
            confirmed.set()
            await check
        await it.watch(TIMEOUT_SECONDS - 1)
        assert it.members == list(GATEWAYS)


async def test_renewals_that_are_not_accepted_are_repeated(monkeypatch):
    async with watching() as it:
        it.pass_time(TIMEOUT_SECONDS + 5)

        async def refuse(command):
            raise NotPrimaryError(2)

        with monkeypatch.context() as patched:
            patched.setattr(it.replica, "propose", refuse)
            with pytest.raises(NotPrimaryError):
                await it.ticker.check()
        before = it.replica.state.op
        await it.ticker.check()
        assert it.operations(before) == ["gateway_heartbeat", "gateway_heartbeat", "renew_node_lease"]
        await it.watch(1)
        assert it.members == list(GATEWAYS)


async def test_renewals_that_took_long_are_repeated(monkeypatch):
    """Renewals may wait for a majority longer than what they renew lasts."""
    async with watching() as it:
        it.pass_time(TIMEOUT_SECONDS + 5)
        propose = it.replica.propose

        async def late(command):
            reply = await propose(command)
            it.pass_time(TIMEOUT_SECONDS + 5)
            return reply

        with monkeypatch.context() as patched:
            patched.setattr(it.replica, "propose", late)
            await it.ticker.check()
        await it.watch(TIMEOUT_SECONDS - 1)
        assert it.members == list(GATEWAYS)


async def test_nothing_is_proposed_for_an_empty_state():
    native = FakeNative()
    async with await Replica.open(native) as replica:
        await replica.wait_recovered()
        it = Primary(native, replica)
        await it.watch(2)
        it.pass_time(TIMEOUT_SECONDS)
        await it.watch(2)
        assert replica.state.op == 0


async def test_a_backup_proposes_nothing():
    async with watching() as it:
        await it.changes_role("backup", 2)
        before = it.replica.state.op
        await it.watch(TIMEOUT_SECONDS + 5)
        assert it.replica.state.op == before
