"""Consumer group memberships of this gateway's connections: their begin and their end.

A membership ends with its connection. Forwarding the disconnect is not enough: the connection may close while it is
still joining, or while no command can be proposed, and the gateway itself may crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from headrace_gateway.ports import Clock, GroupPath, MembershipReader, Proposer, wall_clock_micros
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    Command,
    CompleteRevocation,
    ForgetClient,
    Gateway,
    GatewayHeartbeat,
    Pulse,
    ReplaceGateway,
    Reply,
)
from headrace_proto.well_known import ROOT_USER_ID

_log = logging.getLogger(__name__)

# A join is answered with a delay, after unread partitions have moved. Partitions in use take longer.
_SETTLING_POLLS: Final = 25
_SETTLING_POLL_SECONDS: Final = 0.002

_RETRY_SECONDS: Final = 0.1
_RETRY_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipLimits:
    """Timeouts and intervals."""

    revocation_micros: int
    """Time for which a member may keep a partition that is being revoked."""
    gateway_micros: int
    """Time without a heartbeat after which a gateway is lost with its members."""
    check_seconds: float
    """Interval of heartbeats and of checks for expired revocations."""


class Memberships:
    """Joins and leaves groups on behalf of connections, and sends heartbeats for the gateway's members."""

    def __init__(
        self,
        *,
        proposer: Proposer,
        reader: MembershipReader,
        gateway_id: int,
        gateway_name: str,
        limits: MembershipLimits,
        clock: Clock = wall_clock_micros,
    ) -> None:
        """Describe a gateway.

        Args:
            proposer: Proposes the commands.
            reader: Source of the memberships.
            gateway_id: Id of this run of the process.
            gateway_name: Name of this gateway, the same in every run.
            limits: Timeouts and intervals.
            clock: Returns microseconds since the Unix epoch.
        """
        self._proposer = proposer
        self._reader = reader
        self._gateway = Gateway(id=gateway_id, name=gateway_name, timeout_micros=limits.gateway_micros)
        self._limits = limits
        self._clock = clock
        self._joining: dict[int, asyncio.Event] = {}
        self._leaving: set[int] = set()
        # Connections whose join has an unknown outcome.
        self._in_doubt: set[int] = set()

    async def started(self) -> None:
        """Remove the members left by earlier runs of this gateway."""
        if self._reader.has_earlier_gateway(self._gateway.name, self._gateway.id):
            command = ReplaceGateway(gateway_id=self._gateway.id, name=self._gateway.name)
            await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, replace_gateway=command))

    async def ended(self) -> None:
        """Remove all members of this gateway, which has no connections any more; otherwise they would time out."""
        if not self._reader.has_members(self._gateway.id):
            return
        # Replace this run by a run with the id 0, which no run has.
        command = ReplaceGateway(gateway_id=0, name=self._gateway.name)
        try:
            await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, replace_gateway=command))
        except Exception as error:  # noqa: BLE001  (whatever it is, the process stops)
            _log.warning(
                "members of this gateway were not removed from their groups, the gateway timeout will remove them: %s",
                error,
            )

    def member_ids(self, client_id: int) -> Mapping[GroupPath, int]:
        """Return the ids of a connection of this gateway as a member, by group."""
        return self._reader.member_ids(self._gateway.id, client_id)

    async def create(self, command: Command) -> Reply:
        """Create a group; complete the command with the fields that only this gateway knows."""
        command.create_consumer_group.revocation_timeout_micros = self._limits.revocation_micros
        return await self._proposer.propose(command)

    async def join(self, client_id: int, command: Command) -> Reply:
        """Make a connection a member; complete the command likewise."""
        command.join_consumer_group.gateway.CopyFrom(self._gateway)
        command.join_consumer_group.client_id = client_id
        # A connection has at most one request in flight, so this cannot overwrite another event.
        joined = self._joining[client_id] = asyncio.Event()
        try:
            reply = await self._proposer.propose(command)
        except BaseException:
            self._in_doubt.add(client_id)
            raise
        finally:
            del self._joining[client_id]
            joined.set()
        if reply.status == Status.OK:
            await self._settle(client_id)
        return reply

    async def leave(self, client_id: int, command: Command) -> Reply:
        """End one membership of a connection; complete the command likewise."""
        command.leave_consumer_group.gateway_id = self._gateway.id
        command.leave_consumer_group.client_id = client_id
        return await self._proposer.propose(command)

    async def client_gone(self, client_id: int) -> None:
        """End all memberships of a closed connection; retry until that succeeds."""
        if client_id in self._leaving:
            return
        self._leaving.add(client_id)
        try:
            if client_id in self._joining:
                await self._joining[client_id].wait()
            await self._forget(client_id)
        finally:
            self._leaving.discard(client_id)

    async def revocation_completed(self, request: CompleteRevocation) -> None:
        """Move a partition whose owner has processed all messages it was sent."""
        await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, complete_revocation=request))

    async def run(self) -> NoReturn:
        """Send heartbeats and expire revocations periodically, until cancelled."""
        while True:
            await asyncio.sleep(self._limits.check_seconds)
            try:
                await self.check()
            except Exception:  # noqa: BLE001  (see below)
                # Retried with the next interval; until then the gateway's timeout is running.
                _log.exception("heartbeats of this gateway and its members failed")

    async def check(self) -> None:
        """Send one heartbeat. Nothing is proposed while there are no members."""
        if self._reader.has_members(self._gateway.id):
            heartbeat = GatewayHeartbeat(gateway_id=self._gateway.id)
            await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, gateway_heartbeat=heartbeat))
        if self._reader.is_pulse_due(self._clock()):
            await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, pulse=Pulse()))

    async def _forget(self, client_id: int) -> None:
        pause_seconds = _RETRY_SECONDS
        while client_id in self._in_doubt or self._reader.is_member(self._gateway.id, client_id):
            forget = ForgetClient(gateway_id=self._gateway.id, client_id=client_id)
            try:
                await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, forget_client=forget))
                self._in_doubt.discard(client_id)
            except Exception as error:  # noqa: BLE001  (whatever it is, others wait for what this member owns)
                _log.warning("client %d was not removed from its consumer groups, retrying: %s", client_id, error)
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _RETRY_SECONDS_MAX)

    async def _settle(self, client_id: int) -> None:
        for _ in range(_SETTLING_POLLS):
            if not self._reader.awaits_partitions(self._gateway.id, client_id):
                return
            await asyncio.sleep(_SETTLING_POLL_SECONDS)
