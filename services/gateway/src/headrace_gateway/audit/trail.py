"""Writing of the trail: an event is on the device before the request is answered."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from headrace_gateway.audit.config import AuditConfig
from headrace_gateway.audit.events import BEGUN, SERIES, Event, encoded
from headrace_gateway.audit.files import Series
from headrace_gateway.audit.limits import FailureLimits
from headrace_gateway.ports import Accounts, Clock
from headrace_node.connections.caller import CALLER
from headrace_proto.errors import Status, find

DIRECTORY: Final = "audit"
"""Subdirectory of the data directory, unless the settings name a directory."""

QUEUE: Final = "queue"
DISK: Final = "disk"
FORM: Final = "form"
REASONS: Final = (QUEUE, DISK, FORM)
"""Reasons for lost events: too many events waited for the disk, the disk refused the write, or the event cannot be
written as JSON.
"""

_OK: Final = "ok"
# Minimum interval between log lines about lost events; further losses share one line.
_LINE_SECONDS: Final = 10.0
# Maximum number of lines that wait for the disk. Further events are dropped and counted.
_WAITING_MAX: Final = 4096

_log = logging.getLogger(__name__)


class Trail:
    """Records events; batches writes while ``working`` is active."""

    def __init__(self, config: AuditConfig, directory: Path, *, gateway: str, accounts: Accounts, clock: Clock) -> None:
        """Describe the trail; the disk is not accessed before the first event.

        Args:
            config: Settings.
            directory: Data directory.
            gateway: Name of the process.
            accounts: Source of user names.
            clock: Clock.
        """
        self.directory = config.directory or directory / DIRECTORY
        self.lost_counts = dict.fromkeys(REASONS, 0)
        """Number of events lost instead of being written, by reason."""
        self.suppressed_count = 0
        """Number of failures that were only counted in the line of a later failure."""
        self._unsaid_count = 0
        self._said_at: float | None = None
        self._is_enabled = config.enabled
        self._gateway = gateway
        self._accounts = accounts
        self._clock = clock
        self._failures = FailureLimits()
        self._series = {
            name: Series(self.directory, name, file_bytes_max=config.max_file_size.bytes, files_max=config.max_files)
            for name in SERIES
        }
        self._waiting: list[tuple[Event, asyncio.Future[None]]] = []
        self._came = asyncio.Event()
        self._is_working = False
        self._writing = asyncio.Lock()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Write recorded events for the duration of an ``async with`` block, and the remaining ones at its end."""
        task = asyncio.create_task(self._run(), name="audit")
        self._is_working = True
        try:
            yield
        finally:
            self._is_working = False
            task.cancel()
            await asyncio.wait({task})
            await self._write()
            for series in self._series.values():
                series.close()

    async def begun(self, action: str, subject: dict[str, object], *, user_id: int, client_id: int = 0) -> Event | None:
        """Record the begin of a change; return the event that ``ended`` takes."""
        if not self._is_enabled:
            return None
        event = self._event("change", action, BEGUN, subject=subject, client_id=client_id, user_id=user_id)
        await self._record(event)
        return event

    async def ended(self, begun: Event | None, status: int) -> None:
        """Record the result of a change."""
        if begun is not None:
            await self._record(msgspec.structs.replace(begun, at=self._clock(), result=_result(status)))

    async def changed(
        self, action: str, subject: dict[str, object], *, user_id: int | None, client_id: int = 0
    ) -> None:
        """Record a successful change."""
        if self._is_enabled:
            event = self._event("change", action, _OK, subject=subject, client_id=client_id, user_id=user_id)
            await self._record(event)

    async def logged_in(
        self,
        action: str,
        status: int | str,
        *,
        username: str | None,
        user_id: int | None,
        client_id: int = 0,
        subject: dict[str, object] | None = None,
        suppressed: int = 0,
    ) -> None:
        """Record a login attempt; failures are rate-limited."""
        if not self._is_enabled:
            return
        event = self._event(
            "login",
            action,
            _result(status),
            username=username,
            user_id=user_id,
            client_id=client_id,
            subject=subject,
        )
        if status == Status.OK:
            await self._record(event)
        else:
            await self._record_failure(event, suppressed)

    async def refused(
        self,
        action: str,
        status: int | str,
        *,
        user_id: int | None,
        client_id: int = 0,
        subject: dict[str, object] | None = None,
        suppressed: int = 0,
    ) -> None:
        """Record a refused request: a missing permission, or a refusal at the listener.

        These events are rate-limited.
        """
        if self._is_enabled:
            event = self._event(
                "refusal", action, _result(status), client_id=client_id, user_id=user_id, subject=subject
            )
            await self._record_failure(event, suppressed)

    async def _record_failure(self, event: Event, suppressed: int = 0) -> None:
        suppressed_here = self._failures.take(event.address.rpartition(":")[0], event.at)
        self.suppressed_count += suppressed + (suppressed_here is None)
        if suppressed_here is not None:
            event.suppressed = suppressed_here + suppressed
            await self._record(event)

    def _event(
        self,
        kind: str,
        action: str,
        result: str,
        *,
        user_id: int | None,
        username: str | None = None,
        subject: dict[str, object] | None = None,
        client_id: int = 0,
    ) -> Event:
        caller = CALLER.get()
        user = self._accounts.user(user_id) if user_id is not None and username is None else None
        return Event(
            id=secrets.token_hex(8),
            at=self._clock(),
            event=kind,  # type: ignore[arg-type]  # one of few, which the callers here name
            action=action,
            result=result,
            user_id=user_id,
            username=user.username if user is not None else username,
            address=caller.address if caller is not None else "",
            transport=caller.transport if caller is not None else "",
            client_id=client_id,
            gateway=self._gateway,
            subject=subject or {},
        )

    async def _record(self, event: Event) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            self._lost(QUEUE, 1, "too many events are queued")
            return
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((event, written))
        if self._is_working:
            self._came.set()
        else:
            # Startup or shutdown: few events, so batching is pointless.
            await self._write()
        await written

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            # Finish a write once started: cancelling and retrying it would duplicate lines.
            await asyncio.shield(self._write())

    async def _write(self) -> None:
        async with self._writing:
            self._came.clear()
            waiting, self._waiting = self._waiting, []
            if waiting:
                await self._write_all(waiting)

    async def _write_all(self, waiting: list[tuple[Event, asyncio.Future[None]]]) -> None:
        lines: dict[str, list[bytes]] = {name: [] for name in self._series}
        for event, _ in waiting:
            try:
                lines[event.series].append(encoded(event))
            except Exception as error:  # noqa: BLE001 - one event must not cost the others
                self._lost(FORM, 1, f"event {event.action} cannot be written as JSON: {error}")
        try:
            await asyncio.to_thread(self._add, lines)
        except Exception as error:  # noqa: BLE001 - whatever it is, later events are written
            # Do not fail the request: a server with a full disk must still serve the clients that free space.
            self._lost(DISK, sum(map(len, lines.values())), str(error))
        finally:
            # Requests wait for these futures without limit.
            for _, written in waiting:
                if not written.done():
                    written.set_result(None)

    def _add(self, lines: dict[str, list[bytes]]) -> None:
        for name, series in self._series.items():
            if lines[name]:
                series.add(lines[name])

    def _lost(self, reason: str, count: int, why: str) -> None:
        self.lost_counts[reason] += count
        self._unsaid_count += count
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _LINE_SECONDS:
            _log.error("audit trail lost %d events: %s", self._unsaid_count, why)
            self._said_at, self._unsaid_count = now, 0


def _result(status: int | str) -> str:
    if isinstance(status, str):
        return status
    if status == Status.OK:
        return _OK
    info = find(status)
    return info.name if info is not None else str(status)
