"""Telling the state machine that time passes: it has no clock, and leases and deadlines end by operations only."""

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
"""How often it is looked whether anything is over."""

_log = logging.getLogger(__name__)


@asynccontextmanager
async def telling_the_time(replica: Replica, check_seconds: float = CHECK_SECONDS) -> AsyncIterator[None]:
    """Propose a pulse whenever one is due, for the length of an ``async with`` block; the primary does."""
    task = asyncio.create_task(_tell(replica, check_seconds), name="metadata-time")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _tell(replica: Replica, check_seconds: float) -> None:
    while True:
        await asyncio.sleep(check_seconds)
        # The log's time says when it is worth while. It need not be that of this machine's clock, which may be wrong.
        if replica.role != "primary" or not replica.state.is_pulse_due(replica.log_time_micros()):
            continue
        try:
            await replica.propose(Command(actor_user_id=ROOT_USER_ID, pulse=Pulse()))
        except MetadataError as error:
            # Another replica is the primary meanwhile, or this one stops.
            _log.debug("a pulse was not taken: %s", error)
