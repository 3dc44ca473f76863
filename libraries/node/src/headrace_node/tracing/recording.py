"""Tracing of a process, if enabled."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headrace_node.tracing.config import TraceExportConfig
from headrace_node.tracing.interface import Tracing
from headrace_node.tracing.native import NativeTraces

TakeRecords = Callable[[], Sequence[tuple[Any, ...]]]
"""Function that returns the native trace records since the last call."""


@asynccontextmanager
async def recorded(
    config: TraceExportConfig, take_records: TakeRecords | None, *, release: str, sample_ratio: float = 0.0
) -> AsyncIterator[Tracing | None]:
    """Record spans for the duration of an ``async with`` block, which must end before the native side does.

    Args:
        config: Settings.
        take_records: Source of native records; None if the native side records nothing.
        release: Version of the process.
        sample_ratio: Fraction of the requests without a context that are recorded, from 0 to 1.
    """
    if not config.enabled:
        yield None
        return
    # Imported here: OpenTelemetry takes a third of a second to import, and is an extra of the distribution.
    from headrace_node.tracing.spans import OpenTelemetrySpans  # noqa: PLC0415

    instance = f"{socket.gethostname()}:{os.getpid()}"
    tracing = OpenTelemetrySpans.to_collector(config, version=release, instance=instance, sample_ratio=sample_ratio)
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
