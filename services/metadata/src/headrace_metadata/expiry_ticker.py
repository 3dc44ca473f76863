"""Periodic `Pulse` commands: the state machine has no clock, so leases and deadlines expire by operations only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, NoReturn

from headrace_metadata.errors import MetadataError
from headrace_metadata.replica import Replica
from headrace_proto.metadata.v1 import Command, Pulse
from headrace_proto.well_known import ROOT_USER_ID

CHECK_SECONDS: Final = 0.5
"""Interval at which to check for expired deadlines."""

GAP_MICROS: Final = 2_000_000
"""Time without a check from which on gateways and nodes may have gone unheard, much longer than the interval."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def proposing_the_time(replica: Replica, check_seconds: float = CHECK_SECONDS) -> AsyncIterator[None]:
    """Propose a `Pulse` command whenever one is due, for the duration of an ``async with`` block; primary only."""
    task = asyncio.create_task(_propose_time(ExpiryTicker(replica), check_seconds), name="metadata-time")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class ExpiryTicker:
    """Checks for expired deadlines while this replica is the primary.

    Silence counts from when heartbeats could be committed. So the first check of a primary, and the first one after a
    gap, renews the leases of all gateways and nodes: without a majority, or while this machine was suspended, none of
    them could be heard. Those that have really died are lost one timeout later.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        # Log time of the last check that a majority confirmed; None: there was none.
        self._checked_at_micros: int | None = None

    async def check(self) -> None:
        """Propose what is due.

        Raises:
            MetadataError: A proposal was not accepted, or its outcome is unknown. The next check repeats it.
        """
        replica = self._replica
        if replica.role != "primary":
            return
        # A primary without a majority waits here, and a new one until it has applied the log that it inherited.
        await replica.synchronise()
        # The log's time decides, because the clock of this machine may be wrong.
        now_micros = replica.log_time_micros()
        if self._checked_at_micros is None or now_micros - self._checked_at_micros > GAP_MICROS:
            await self._renew()
            # No `Pulse` before the next check, which notices if these proposals took long.
            self._checked_at_micros = now_micros
            return
        self._checked_at_micros = now_micros
        if replica.state.is_pulse_due(now_micros):
            await replica.propose(Command(actor_user_id=ROOT_USER_ID, pulse=Pulse()))

    async def _renew(self) -> None:
        renewals = self._replica.state.renewals()
        if renewals:
            await asyncio.gather(*(self._replica.propose(renewal) for renewal in renewals))
            _log.info("the timeouts of %d gateways and nodes begin anew: they may have gone unheard", len(renewals))


async def _propose_time(ticker: ExpiryTicker, check_seconds: float) -> NoReturn:
    while True:
        await asyncio.sleep(check_seconds)
        try:
            await ticker.check()
        except MetadataError as error:
            # Another replica has become the primary, or this one stops.
            _log.debug("expired deadlines were not checked: %s", error)
