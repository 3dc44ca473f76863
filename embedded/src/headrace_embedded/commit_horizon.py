"""Commit horizon for the shards: the time up to which they know every commit; metadata service in the same process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, NoReturn

from headrace_metadata.errors import MetadataError
from headrace_metadata.replica import Replica
from headrace_node import Horizon
from headrace_proto.metadata.v1 import Command, Pulse
from headrace_proto.well_known import ROOT_USER_ID

CHECK_SECONDS: Final = 5.0
"""Interval at which to check for staged batches."""

_log = logging.getLogger(__name__)


async def pass_horizon(
    replica: Replica, stages_count: Callable[[], int], horizon: Horizon, *, check_seconds: float = CHECK_SECONDS
) -> NoReturn:
    """Report the horizon while anything is staged, until cancelled.

    Args:
        replica: Replica whose state is published to the shards as it changes.
        stages_count: Returns the number of stages of the partitions.
        horizon: Receives the horizon.
        check_seconds: Interval of checks.
    """
    while True:
        await asyncio.sleep(check_seconds)
        if stages_count() == 0:
            continue
        state = replica.state
        # The state's time advances only by operations, and there may be no others.
        if state.timestamp_micros + int(check_seconds * 1_000_000) <= time.time_ns() // 1000:
            try:
                await replica.propose(Command(actor_user_id=ROOT_USER_ID, pulse=Pulse()))
            except MetadataError as error:
                _log.warning("expired stages are not cleaned up yet: %s", error)
        # Subscribers have every change of the state, so there is nothing to wait for.
        horizon.reached(state.version)
        horizon.known(state.version, state.timestamp_micros)
