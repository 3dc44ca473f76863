"""Traces of a process, where they are on."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headrace_gateway.observability.native_traces import NativeTraces
from headrace_gateway.observability.tracing import Tracing
from headrace_gateway.observability.tracing_config import TracingConfig


@asynccontextmanager
async def recorded(
    config: TracingConfig, take_records: Callable[[], Sequence[tuple[Any, ...]]], *, release: str
) -> AsyncIterator[Tracing | None]:
    """Make spans for the length of an ``async with`` block, which ends before the node does.

    Args:
        config: Settings.
        take_records: Returns what the native side has recorded since the last call.
        release: Of the server.
    """
    if not config.enabled:
        yield None
        return
    tracing = Tracing.to_collector(config, version=release, instance=f"{socket.gethostname()}:{os.getpid()}")
    records = NativeTraces(take_records, tracing)
    task = asyncio.create_task(records.run(), name="native-traces")
    try:
        yield tracing
    finally:
        task.cancel()
        await asyncio.wait({task})
        records.export()
        await tracing.stop()
