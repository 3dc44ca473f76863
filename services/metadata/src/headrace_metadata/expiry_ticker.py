"""Periodic `Pulse` commands: the state machine has no clock, so leases and deadlines expire by operations only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from headrace_metadata.errors import MetadataError
from headrace_metadata.replica import Replica
from headrace_proto.metadata.v1 import Command, Pulse
from headrace_proto.well_known import ROOT_USER_ID

CHECK_SECONDS: Final = 0.5
"""Interval at which to check for expired deadlines."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def proposing_the_time(replica: Replica, check_seconds: float = CHECK_SECONDS) -> AsyncIterator[None]:
    """Propose a `Pulse` command whenever one is due, for the duration of an ``async with`` block; primary only."""
    task = asyncio.create_task(_propose_time(replica, check_seconds), name="metadata-time")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _propose_time(replica: Replica, check_seconds: float) -> None:
    while True:
        await asyncio.sleep(check_seconds)
        # The log's time decides when a `Pulse` is due, because the clock of this machine may be wrong.
        if replica.role != "primary" or not replica.state.is_pulse_due(replica.log_time_micros()):
            continue
        try:
            await replica.propose(Command(actor_user_id=ROOT_USER_ID, pulse=Pulse()))
        except MetadataError as error:
            # Another replica has become the primary, or this one stops.
            _log.debug("heartbeat not accepted: %s", error)
