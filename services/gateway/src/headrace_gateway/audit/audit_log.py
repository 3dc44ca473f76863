"""Writing of the trail: an event is on the device before the request is answered."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from headrace_chassis.places import place_of
from headrace_gateway.audit.config import AuditConfig
from headrace_gateway.audit.events import BEGUN, OK, SERIES, Event, encoded
from headrace_gateway.audit.files import Series
from headrace_gateway.audit.limits import FAILURES, LOGINS, EventLimits
from headrace_gateway.audit.syslog import EXPORT, Export
from headrace_gateway.audit.writing import DISK, QUEUE, Writer
from headrace_gateway.ports import AccountDirectory, Clock
from headrace_node.connections.caller import CALLER
from headrace_proto.errors import Status, find

DIRECTORY: Final = "audit"
"""Subdirectory of the data directory, unless the settings name a directory."""

FORM: Final = "form"
REASONS: Final = (QUEUE, DISK, FORM, EXPORT)
"""Reasons for lost events: too many events waited for the disk, the disk refused the write, the event cannot be written
as JSON, or the syslog server did not take it.
"""

# Minimum interval between log lines about lost events; further losses share one line.
_LINE_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class AuditLog:
    """Records events; batches writes while ``working`` is active."""

    def __init__(
        self, config: AuditConfig, directory: Path, *, gateway: str, accounts: AccountDirectory, clock: Clock
    ) -> None:
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
        """Number of logins and failures that were only counted in the line of a later one."""
        self._unsaid_count = 0
        self._said_at: float | None = None
        self._is_enabled = config.enabled
        self._gateway = gateway
        self._accounts = accounts
        self._clock = clock
        self._export = Export(config.syslog, self._lost) if config.syslog is not None else None
        # Each class of events has limits of its own: failed logins do not use up those of refusals.
        self._failures = {"login": EventLimits(*FAILURES), "refusal": EventLimits(*FAILURES)}
        self._logins = EventLimits(*LOGINS)
        self._writers = {name: Writer(self._series_of(config, name), self._lost) for name in SERIES}

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Write recorded events for the duration of an ``async with`` block, and the remaining ones at its end."""
        async with AsyncExitStack() as stack:
            if self._export is not None:
                await stack.enter_async_context(self._export.working())
            for name, writer in self._writers.items():
                await stack.enter_async_context(writer.working(f"audit-{name}"))
            yield

    def _series_of(self, config: AuditConfig, name: str) -> Series:
        size = config.max_file_size.bytes
        return Series(self.directory, name, file_bytes_max=size, files_max=config.max_files)

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
            event = self._event("change", action, OK, subject=subject, client_id=client_id, user_id=user_id)
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
        """Record a login attempt. Failures are rate-limited, and so are logins of one user from one address."""
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
            user = user_id if user_id is not None else username
            await self._record_limited(event, self._logins, suppressed, (user, _place(event)), user)
        else:
            await self._record_limited(event, self._failures["login"], suppressed, _place(event), None)

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
            await self._record_limited(event, self._failures["refusal"], suppressed, _place(event), None)

    async def _record_limited(self, event: Event, limits: EventLimits, suppressed: int, *keys: Hashable) -> None:
        suppressed_here = limits.take(event.at, *keys)
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
        try:
            line = encoded(event)
        except Exception as error:  # noqa: BLE001 - an event that is no JSON must not fail its request
            self._lost(FORM, 1, f"event {event.action} cannot be written as JSON: {error}")
            return
        if self._export is not None:
            self._export.offer(event, line)
        await self._writers[event.series].add(line)

    def _lost(self, reason: str, count: int, why: str) -> None:
        self.lost_counts[reason] += count
        self._unsaid_count += count
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _LINE_SECONDS:
            _log.error("audit trail lost %d events: %s", self._unsaid_count, why)
            self._said_at, self._unsaid_count = now, 0


def _place(event: Event) -> str:
    return place_of(event.address)


def _result(status: int | str) -> str:
    if isinstance(status, str):
        return status
    if status == Status.OK:
        return OK
    info = find(status)
    return info.name if info is not None else str(status)
