"""Traces of the embedded server, where they are on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from headrace_gateway.observability.native_traces import NativeTraces
from headrace_gateway.observability.tracing import Tracing
from headrace_gateway.observability.tracing_config import TracingConfig


@asynccontextmanager
async def recorded(
    config: TracingConfig, take_records: Callable[[], Sequence[tuple[Any, ...]]], *, process: int
) -> AsyncIterator[Tracing | None]:
    """Make spans for the length of an ``async with`` block, which ends before the node does.

    Args:
        config: Settings.
        take_records: Returns what the native side has recorded since the last call.
        process: Number of this process.
    """
    if not config.enabled:
        yield None
        return
    tracing = Tracing.to_collector(config, version=version("headrace"), instance=f"{socket.gethostname()}:{process}")
    records = NativeTraces(take_records, tracing)
    task = asyncio.create_task(records.run(), name="native-traces")
    try:
        yield tracing
    finally:
        task.cancel()
        await asyncio.wait({task})
        records.export()
        await tracing.stop()
