"""The queue of one series, and the task that writes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from headrace_chassis.background import background
from headrace_gateway.audit.files import Series

QUEUE: Final = "queue"
DISK: Final = "disk"
"""Reasons for lost lines."""

_WAITING_MAX: Final = 4096

Lost = Callable[[str, int, str], None]
"""Called with the reason, the number of lines and a text when lines are lost."""


class Writer:
    """Writes the lines of one series in batches. Lines do not wait for those of other series."""

    def __init__(self, series: Series, lost: Lost) -> None:
        """Describe the writer; the disk is not accessed before the first line.

        Args:
            series: Files of the lines.
            lost: Called for lines that are not written.
        """
        self._series = series
        self._lost = lost
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._came = asyncio.Event()
        self._is_working = False
        self._writing = asyncio.Lock()

    async def add(self, line: bytes) -> None:
        """Return when the line is on the device, or lost."""
        if len(self._waiting) >= _WAITING_MAX:
            self._lost(QUEUE, 1, "too many events are queued")
            return
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((line, written))
        if self._is_working:
            self._came.set()
        else:
            # Startup or shutdown: few events, so batching is pointless.
            await self._write()
        await written

    @asynccontextmanager
    async def working(self, name: str) -> AsyncIterator[None]:
        """Write lines in a task for the duration of an ``async with`` block, and the remaining ones at its end."""
        async with background(self._run(), name):
            self._is_working = True
            try:
                yield
            finally:
                self._is_working = False
        await self._write()
        self._series.close()

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            # Finish a write once started: cancelling and retrying it would duplicate lines.
            await asyncio.shield(self._write())

    async def _write(self) -> None:
        async with self._writing:
            self._came.clear()
            waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            try:
                await asyncio.to_thread(self._series.add, [line for line, _ in waiting])
            except Exception as error:  # noqa: BLE001 - whatever it is, later events are written
                # Do not fail the request: a server with a full disk must still serve the clients that free space.
                self._lost(DISK, len(waiting), str(error))
            finally:
                # Requests wait for these futures without limit.
                for _, written in waiting:
                    if not written.done():
                        written.set_result(None)
