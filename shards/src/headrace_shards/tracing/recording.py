"""Traces of a process, where they are on."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headrace_shards.tracing.config import TraceExportConfig
from headrace_shards.tracing.native import NativeTraces
from headrace_shards.tracing.spans import Tracing

TakeRecords = Callable[[], Sequence[tuple[Any, ...]]]
"""Returns what the native side has recorded since the last call."""


@asynccontextmanager
async def recorded(
    config: TraceExportConfig, take_records: TakeRecords | None, *, release: str, sample_ratio: float = 0.0
) -> AsyncIterator[Tracing | None]:
    """Make spans for the length of an ``async with`` block, which ends before the native side does.

    Args:
        config: Settings.
        take_records: None where the native side records nothing.
        release: Of the process.
        sample_ratio: How many of the requests without a context are recorded, from 0 to 1.
    """
    if not config.enabled:
        yield None
        return
    instance = f"{socket.gethostname()}:{os.getpid()}"
    tracing = Tracing.to_collector(config, version=release, instance=instance, sample_ratio=sample_ratio)
    try:
        if take_records is None:
            yield tracing
            return
        records = NativeTraces(take_records, tracing)
        task = asyncio.create_task(records.run(), name="native-traces")
        try:
            yield tracing
        finally:
            task.cancel()
            await asyncio.wait({task})
            records.export()
    finally:
        await tracing.stop()
