"""Memberships in consumer groups of the connections that this gateway holds: how they begin, and that they end.

A membership ends with its connection. That takes more than passing the news on: it can come while the connection is
still joining, or while nothing can be proposed, and the gateway itself can go without a word.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, NoReturn

from headrace_gateway.ports import Clock, MembershipReader, Proposer, wall_clock_micros
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

# Whoever joins is told a little later, when partitions that nobody has read yet have moved. Those in use take longer.
_SETTLING_POLLS: Final = 25
_SETTLING_POLL_SECONDS: Final = 0.002

_RETRY_SECONDS: Final = 0.1
_RETRY_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipLimits:
    """How long things may take."""

    revocation_micros: int
    """A member may hold on to a partition that it is to give up."""
    gateway_micros: int
    """A gateway that was not heard from for so long is lost with its members."""
    check_seconds: float
    """How often to say that this gateway lives, and to look for what is over."""


class Memberships:
    """Joins and leaves in the name of connections, and keeps the gateway's members alive."""

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
            proposer: Takes the commands.
            reader: Knows who is a member.
            gateway_id: Of this run of the process alone.
            gateway_name: The same in every run, of this gateway alone.
            limits: How long things may take.
            clock: Returns microseconds since the Unix epoch.
        """
        self._proposer = proposer
        self._reader = reader
        self._gateway = Gateway(id=gateway_id, name=gateway_name, timeout_micros=limits.gateway_micros)
        self._limits = limits
        self._clock = clock
        self._joining: dict[int, asyncio.Event] = {}
        self._leaving: set[int] = set()
        # Connections that nobody could say of whether they have joined.
        self._in_doubt: set[int] = set()

    async def started(self) -> None:
        """End the memberships that earlier runs of this gateway have left behind."""
        if self._reader.has_earlier_gateway(self._gateway.name, self._gateway.id):
            command = ReplaceGateway(gateway_id=self._gateway.id, name=self._gateway.name)
            await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, replace_gateway=command))

    async def ended(self) -> None:
        """End all memberships at this gateway, which holds no connection any more; they would end in time."""
        if not self._reader.has_members(self._gateway.id):
            return
        # As if another run had begun, which no run has the number of.
        command = ReplaceGateway(gateway_id=0, name=self._gateway.name)
        try:
            await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, replace_gateway=command))
        except Exception as error:  # noqa: BLE001  (whatever it is, the process stops)
            _log.warning("members of consumer groups at this gateway are lost by its timeout only: %s", error)

    async def create(self, command: Command) -> Reply:
        """Create a group, by a command that lacks what only this gateway knows."""
        command.create_consumer_group.revocation_timeout_micros = self._limits.revocation_micros
        return await self._proposer.propose(command)

    async def join(self, client_id: int, command: Command) -> Reply:
        """Make a connection a member, by such a command."""
        command.join_consumer_group.gateway.CopyFrom(self._gateway)
        command.join_consumer_group.client_id = client_id
        # A connection asks for one thing at a time, so there is nobody else's event to be replaced here.
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
        """End one membership of a connection, by such a command."""
        command.leave_consumer_group.gateway_id = self._gateway.id
        command.leave_consumer_group.client_id = client_id
        return await self._proposer.propose(command)

    async def client_gone(self, client_id: int) -> None:
        """End all memberships of a connection that has closed; does not give up before that is done."""
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
        """Let a partition move whose owner has processed all that it was given."""
        await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, complete_revocation=request))

    async def run(self) -> NoReturn:
        """Say that this gateway lives, and that time passes, until cancelled."""
        while True:
            await asyncio.sleep(self._limits.check_seconds)
            try:
                await self.check()
            except Exception:  # noqa: BLE001  (see below)
                # The next turn may have more luck; until then members are at the mercy of the gateway's timeout.
                _log.exception("the members of consumer groups at this gateway cannot be kept alive")

    async def check(self) -> None:
        """Do so once. Nothing is proposed as long as nobody is a member."""
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
                _log.warning("client %d cannot leave its consumer groups, trying again: %s", client_id, error)
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _RETRY_SECONDS_MAX)

    async def _settle(self, client_id: int) -> None:
        for _ in range(_SETTLING_POLLS):
            if not self._reader.awaits_partitions(self._gateway.id, client_id):
                return
            await asyncio.sleep(_SETTLING_POLL_SECONDS)
