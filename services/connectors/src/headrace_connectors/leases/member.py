"""One process of a group: it renews its leases, and knows at each moment which connectors it may run."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, Protocol

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.leases.balance import Changes, changes
from headrace_connectors.leases.ledger import (
    Claim,
    Configured,
    LeaseExpired,
    Leaving,
    Member,
    Release,
    Renewal,
    Saved,
    SavedState,
    encode_change,
)
from headrace_connectors.leases.topic import LedgerTopic
from headrace_connectors.versions import Family, LogChange, VersionLog

_log = logging.getLogger(__name__)

RENEWALS_PER_LEASE: Final = 5
# A holder stops in this part of its lease, so that it has ended before others may begin.
_STOP_AT: Final = 0.5
_END_AT: Final = 0.8


class LeaseLost(ConnectorError):
    """Another process has the connector, or may have it soon."""

    code = "lease_lost"


class Lease(Protocol):
    """Right to run connectors, as connectors see it."""

    def fence(self, connector: str) -> int | None:
        """Return the fence of a lease under which work may begin; None if it may not."""

    def may_finish(self, connector: str) -> bool:
        """Return True while work on a connector may be brought to its end."""

    def runs_in(self, connector: str) -> str | None:
        """Return the name of the process that has the lease of a connector; None if none has, or it is not known."""

    @property
    def ends_at(self) -> float:
        """Time of the monotonic clock at which everything has to have ended, unless the lease is renewed."""


class GroupMember:
    """The own process as a member of a group.

    Args:
        topic: The ledger.
        lease_seconds: Time for which a lease is valid after it was renewed.
        connectors: Connectors that this process can run; `offer` changes them.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self,
        topic: LedgerTopic,
        *,
        lease_seconds: float,
        connectors: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = secrets.token_hex(8)
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self.lease_seconds = lease_seconds
        self._topic = topic
        self._connectors = tuple(connectors)
        self._clock = clock
        self._renewed_at = -lease_seconds
        self._numbers = itertools.count(1)
        # Fences of leases that are given up, or may be.
        self._given_up: set[int] = set()
        # When the newest renewal of each other member was seen here.
        self._seen: dict[str, tuple[int, float]] = {}

    # ---- what it may do

    def fence(self, connector: str) -> int | None:
        """Return the fence of a lease that this process has and may begin work under; None if it may not."""
        return self._fence(connector, _STOP_AT)

    def may_finish(self, connector: str) -> bool:
        """Return True while work on a connector may be brought to its end."""
        return self._fence(connector, _END_AT) is not None

    def _fence(self, connector: str, part: float) -> int | None:
        if self._clock() >= self._renewed_at + part * self.lease_seconds:
            return None
        fence = self._topic.ledger.held_by(self.id).get(connector)
        return None if fence in self._given_up else fence

    @property
    def seconds_to_end(self) -> float:
        """Time until everything has to have ended, unless the leases are renewed; 0 if it is over."""
        return max(0.0, self._renewed_at + _END_AT * self.lease_seconds - self._clock())

    @property
    def ends_at(self) -> float:
        """Time of the clock at which everything has to have ended, unless the leases are renewed."""
        return self._renewed_at + _END_AT * self.lease_seconds

    def runs_in(self, connector: str) -> str | None:
        """Return the name of the process that has the lease of a connector; None if none has, or it is not known."""
        lease = self._topic.ledger.leases.get(connector)
        if lease is not None and lease.owner == self.id and not self.may_finish(connector):
            return None
        owner = None if lease is None or lease.owner is None else self._topic.ledger.members.get(lease.owner)
        return None if owner is None else owner.renewal.name

    @property
    def held(self) -> Sequence[str]:
        """Connectors whose leases the ledger gives to this process."""
        return list(self._topic.ledger.held_by(self.id))

    def is_given_up(self, connector: str) -> bool:
        """Return True if it is not known yet whether the lease of a connector was given up."""
        return self._topic.ledger.held_by(self.id).get(connector) in self._given_up

    # ---- what it does

    def offer(self, connectors: Sequence[str]) -> None:
        """Change the connectors that this process can run; others know it after the next renewal."""
        self._connectors = tuple(connectors)

    @property
    def is_offer_new(self) -> bool:
        """True if others do not know yet what this process can run."""
        member = self._topic.ledger.members.get(self.id)
        return member is not None and member.renewal.connectors != self._connectors

    async def renew(self) -> None:
        """Renew the leases. They count from before the entry was sent, and once it was read back.

        Raises:
            Unavailable: It is not known whether they were renewed.
        """
        before = self._clock()
        await self._topic.append(Renewal(self.id, self.name, self.lease_seconds, self._connectors))
        # Several may be on their way at a time.
        self._renewed_at = max(before, self._renewed_at)

    async def renewing(self) -> NoReturn:
        """Renew the leases again and again, until cancelled."""
        pause = self.lease_seconds / RENEWALS_PER_LEASE
        while True:
            due_at = self._clock() + pause
            try:
                await self.renew()
            except Unavailable as error:
                _log.warning("the leases could not be renewed, %.1f s are left: %s", self.seconds_to_end, error)
            await asyncio.sleep(max(pause / 4, due_at - self._clock()))

    async def changed(self) -> None:
        """Wait until something may have to change."""
        await self._topic.changed(self.lease_seconds / RENEWALS_PER_LEASE / 2)

    async def remove_silent(self) -> None:
        """Take the leases of members that were silent for the whole of their lease.

        Raises:
            Unavailable: It is not known whether it took effect.
        """
        for id_, member in list(self._topic.ledger.members.items()):
            if self._is_silent(id_, member) and await self._topic.append(LeaseExpired(id_, member.renewed_at)):
                _log.warning("%s has not renewed its leases: they are given to others", member.renewal.name)
        self._seen = {id_: seen for id_, seen in self._seen.items() if id_ in self._topic.ledger.members}

    def _is_silent(self, id_: str, member: Member) -> bool:
        if id_ == self.id:
            return False
        seen = self._seen.get(id_)
        if seen is None or seen[0] != member.renewed_at:
            seen = self._seen[id_] = (member.renewed_at, self._clock())
        return self._clock() >= seen[1] + member.renewal.lease_seconds

    def wanted(self) -> Changes:
        """Return the connectors that this process should claim and give up."""
        ledger = self._topic.ledger
        if self.id not in ledger.members or self._clock() >= self._renewed_at + _STOP_AT * self.lease_seconds:
            return Changes([], [])
        live = [id_ for id_, member in ledger.members.items() if not self._is_silent(id_, member)]
        return changes(ledger, self.id, live)

    async def claim(self, connector: str) -> bool:
        """Take a connector that no process has; return False if another was faster.

        Raises:
            Unavailable: It is not known whether it took effect.
        """
        return await self._topic.append(Claim(self.id, connector, self._topic.ledger.fence(connector)))

    async def release(self, connector: str) -> None:
        """Give up a connector that was stopped. To be repeated until it succeeds.

        Raises:
            Unavailable: It is not known whether it took effect.
        """
        fence = self._topic.ledger.held_by(self.id).get(connector)
        if fence is not None:
            self._given_up.add(fence)
            await self._topic.append(Release(self.id, connector, fence))
            self._given_up.discard(fence)

    async def leave(self) -> None:
        """Give up everything.

        Raises:
            Unavailable: It is not known whether it took effect.
        """
        await self._topic.append(Leaving(self.id))

    async def shorten(self) -> None:
        """Write a snapshot of the ledger if one is due.

        Raises:
            Unavailable: It may not have been written.
        """
        if self._topic.is_long and self.id == min(self._topic.ledger.members, default=""):
            await self._topic.shorten()

    # ---- configurations

    def versions(self, family: Family) -> Mapping[str, VersionLog]:
        """Return the versions of all connectors or mappings, as far as this process has read."""
        return self._topic.ledger.versions[family]

    async def configure(self, family: Family, log: VersionLog, change: LogChange) -> bool:
        """Change versions that are still as they are known here; return False if another change came before.

        Raises:
            Unavailable: It is not known whether it took effect.
        """
        return await self._topic.append(Configured(family, log.key, log.epoch, encode_change(change)))

    # ---- states

    @property
    def states(self) -> Mapping[str, SavedState]:
        """States of the sources of the group."""
        return self._topic.ledger.states

    async def save(self, connector: str, plugin: str, state: bytes) -> None:
        """Save the state of a source.

        Raises:
            LeaseLost: Another process has the source: nothing was saved.
            Unavailable: It is not known whether it was saved.
        """
        fence = self._fence(connector, _END_AT)
        number = next(self._numbers)
        if fence is None or not await self._topic.append(Saved(self.id, connector, fence, plugin, state, number)):
            raise LeaseLost(f"the lease of {connector} is over, and another process may have it: nothing was saved")
