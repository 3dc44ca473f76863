"""Watch of the catalog, with failover between the replicas.

One replica at a time is watched. If it fails, sends nothing although others have newer versions, or does not answer any
more, another one continues after the last received version. The catalog never goes backwards: the client waits for a
replica that has not reached that version, or switches to one that has.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, Final, TypeAlias

from grpc import aio

from headrace_metadata_client.connecting import Connections
from headrace_metadata_client.errors import UnauthenticatedError
from headrace_metadata_client.reads import statuses
from headrace_metadata_client.replicas import CREDENTIALS_REFUSED
from headrace_proto.catalog.v1 import Snapshot, Update
from headrace_proto.metadata.v1 import WatchRequest, WatchResponse

CatalogEvent: TypeAlias = Snapshot | Update
"""Event of the catalog. A snapshot replaces the previous state; an update follows the version before without a gap."""

_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 2.0
_TIMEOUT_SECONDS_MAX: Final = 60.0
_DOUBLINGS_MAX: Final = 10

_Call: TypeAlias = aio.UnaryStreamCall[Any, WatchResponse]

_log = logging.getLogger(__name__)


class CatalogWatch:
    """Follows the catalog.

    All methods belong to one event loop.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        after_version: int | None = None,
        version_min: int = 0,
        look_seconds: float = 2.0,
        timeout_seconds: float = 1.0,
    ) -> None:
        """Create a watch. Nothing is sent before the first event is requested.

        Args:
            connections: Connections to all replicas.
            after_version: Version that the caller has: its updates follow. None: starts with a snapshot.
            version_min: Minimum version, known from elsewhere; an older snapshot is not accepted.
            look_seconds: Time without events after which all replicas are queried for their versions.
            timeout_seconds: Maximum time that the watched replica may lag behind the newest known version.
        """
        self._connections = connections
        self._version = after_version
        self._wanted = max(version_min, after_version or 0)
        self._look_seconds = look_seconds
        self._timeout_seconds = timeout_seconds
        self._expected = asyncio.Event()
        self._current_at: float | None = None
        # True while the caller processes an event: nothing is read meanwhile, which must not count as the replica's
        # lag.
        self._is_busy = False

    @property
    def version(self) -> int | None:
        """Version of the last event; None before the first."""
        return self._version

    @property
    def age_seconds(self) -> float:
        """Age of the last confirmation that no newer version was known; infinite before the first one."""
        return time.monotonic() - self._current_at if self._current_at is not None else float("inf")

    def expect(self, version: int) -> None:
        """Note that this version exists, because a reply named it: the watched replica must reach it soon."""
        self._wanted = max(self._wanted, version)
        if version > (self._version or 0):
            self._expected.set()

    async def events(self) -> AsyncGenerator[CatalogEvent, None]:
        """Snapshot and updates, without end. The caller must close the generator (`contextlib.aclosing`).

        Raises:
            UnauthenticatedError: All replicas refuse the caller's credentials, and none has accepted them before.
        """
        replicas_count = len(self._connections.stubs)
        target = random.randrange(replicas_count)  # noqa: S311  (any of them will do)
        failures = refusals = 0
        while True:
            # Double the timeout with each failure: sending a large catalog takes longer than sending updates.
            timeout_seconds = min(self._timeout_seconds * 2 ** min(failures, _DOUBLINGS_MAX), _TIMEOUT_SECONDS_MAX)
            try:
                async with aclosing(self._reported_by(target, timeout_seconds)) as events:
                    async for event in events:
                        failures = refusals = 0
                        yield event
                reason = "the replica ended the call"
            except _Behind as behind:
                reason = str(behind)
            except aio.AioRpcError as error:
                reason = f"{error.code().name.lower()}: {error.details()}"
                refusals += error.code() in CREDENTIALS_REFUSED
                if refusals >= replicas_count and self._version is None:
                    raise UnauthenticatedError(error.details()) from error
            address = self._connections.addresses[target]
            # Log with exponential back-off: an hour without an answer is a dozen lines.
            level = logging.WARNING if failures & (failures - 1) == 0 else logging.DEBUG
            _log.log(level, "catalog watch at %s ended: %s", address, reason)
            target = (target + 1) % replicas_count
            pause_seconds = min(_PAUSE_SECONDS * 2 ** min(failures, _DOUBLINGS_MAX), _PAUSE_SECONDS_MAX)
            await asyncio.sleep(random.uniform(0.5, 1) * pause_seconds)  # noqa: S311  (so that callers do not march)
            failures += 1

    async def _reported_by(self, target: int, timeout_seconds: float) -> AsyncGenerator[CatalogEvent, None]:
        request = WatchRequest(after_version=self._version)
        call = self._connections.stubs[target].Watch(request, metadata=self._connections.metadata)
        looking = asyncio.create_task(self._look_after(call, target, timeout_seconds), name="catalog-check")
        try:
            while (response := await _read(call, looking)) is not None:
                event = self._accepted(response)
                self._current_at = time.monotonic()
                if event is not None:
                    self._version = event.version
                    self._is_busy = True
                    yield event
                    self._is_busy = False
        finally:
            self._is_busy = False
            looking.cancel()
            call.cancel()

    def _accepted(self, response: WatchResponse) -> CatalogEvent | None:
        if response.HasField("snapshot"):
            version = response.snapshot.version
            if version < max(self._wanted, self._version or 0):
                raise _Behind(f"the replica's catalog has version {version}, and {self._wanted} was seen before")
            return response.snapshot if version != self._version else None
        if self._version is None or response.update.version != self._version + 1:
            raise _Behind(f"version {response.update.version} does not follow {self._version}")
        return response.update

    async def _look_after(self, call: _Call, target: int, timeout_seconds: float) -> str:
        """Check all replicas whenever no event came for a while; end the call if another one is ahead.

        Returns:
            The reason for ending the call.
        """
        behind_since: float | None = None
        generation = self._connections.generation
        while True:
            seen = self._version
            if self._connections.generation != generation:
                call.cancel()
                return "the cluster authority was replaced"
            is_late = seen is None or self._wanted > seen or behind_since is not None
            await self._wait(timeout_seconds / 2 if is_late else self._look_seconds)
            if self._is_current_since(seen):
                behind_since = None
                continue
            reason = await self._lag(target)
            if reason is None or self._is_current_since(seen):
                behind_since = None
            elif behind_since is None:
                behind_since = time.monotonic()
            elif time.monotonic() - behind_since >= timeout_seconds:
                call.cancel()
                return reason

    def _is_current_since(self, seen: int | None) -> bool:
        return self._is_busy or self._version != seen

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._expected.wait(), seconds)
            self._expected.clear()
            # The update is usually already on its way, as the reply was.
            await asyncio.sleep(self._timeout_seconds / 4)

    async def _lag(self, target: int) -> str | None:
        """Return the reason for leaving this replica; None: it is up to date."""
        found = await statuses(self._connections, self._timeout_seconds)
        answers = [status for status in found if status is not None]
        known = max([self._wanted, *(status.version for status in answers)])
        if found[target] is None and answers:
            return "the replica does not respond, while others do"
        if self._version is None:
            return "the replica sends no updates"
        if known > self._version:
            return f"the replica sends no updates beyond version {self._version}, and {known} is known"
        if 2 * len(answers) > len(found):
            self._current_at = time.monotonic()
        return None


class _Behind(Exception):
    """The replica lags behind the newest known version."""


async def _read(call: _Call, looking: asyncio.Task[str]) -> WatchResponse | None:
    try:
        response = await call.read()
    except asyncio.CancelledError:
        # Either the caller cancels this task, or the check has decided to switch replicas.
        task = asyncio.current_task()
        if looking.done() and not looking.cancelled() and not (task is not None and task.cancelling()):
            raise _Behind(looking.result()) from None
        raise
    return response if isinstance(response, WatchResponse) else None
