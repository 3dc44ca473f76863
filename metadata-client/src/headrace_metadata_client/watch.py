"""The catalogue as it changes, whichever replica tells it.

One replica at a time is listened to. When it is gone, says nothing although others have news, or does not answer any
more, another one goes on behind what was heard last. What was heard is never taken back: a replica that has not come
that far is waited for, or left for one that has.
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
from headrace_metadata_client.errors import StrangerError
from headrace_metadata_client.reads import statuses
from headrace_metadata_client.replicas import STRANGER
from headrace_proto.catalog.v1 import Snapshot, Update
from headrace_proto.metadata.v1 import WatchRequest, WatchResponse

CatalogueEvent: TypeAlias = Snapshot | Update
"""A snapshot replaces everything that came before it; an update follows the version before without a gap."""

_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 2.0
_PATIENCE_SECONDS_MAX: Final = 60.0
_DOUBLINGS_MAX: Final = 10

_Call: TypeAlias = aio.UnaryStreamCall[Any, WatchResponse]

_log = logging.getLogger(__name__)


class CatalogueWatch:
    """Follows the catalogue.

    All methods belong to one event loop.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        after_version: int | None = None,
        version_min: int = 0,
        look_seconds: float = 2.0,
        patience_seconds: float = 1.0,
    ) -> None:
        """Nothing is sent before the first event is asked for.

        Args:
            connections: To all replicas.
            after_version: What the caller holds: its updates follow. None: nothing, and it begins with a snapshot.
            version_min: What somebody has seen before; an older snapshot is not accepted.
            look_seconds: After so long in silence all replicas are asked whether there is any news.
            patience_seconds: A replica may be so long behind what others know.
        """
        self._connections = connections
        self._version = after_version
        self._wanted = max(version_min, after_version or 0)
        self._look_seconds = look_seconds
        self._patience_seconds = patience_seconds
        self._expected = asyncio.Event()
        self._current_at: float | None = None
        # Whoever is told takes its time; meanwhile nothing is read, and that is not the replica's fault.
        self._is_busy = False

    @property
    def version(self) -> int | None:
        """Of the last event; none before the first."""
        return self._version

    @property
    def age_seconds(self) -> float:
        """How long ago it was seen that nothing newer was known; infinite before the first time."""
        return time.monotonic() - self._current_at if self._current_at is not None else float("inf")

    def expect(self, version: int) -> None:
        """Say that this version exists, because a reply named it: the replica listened to must come that far soon."""
        self._wanted = max(self._wanted, version)
        if version > (self._version or 0):
            self._expected.set()

    async def events(self) -> AsyncGenerator[CatalogueEvent, None]:
        """Snapshot and updates, without end. To be closed (`contextlib.aclosing`) by whoever leaves it.

        Raises:
            StrangerError: No replica accepts the caller, and none has before.
        """
        replicas_count = len(self._connections.stubs)
        target = random.randrange(replicas_count)  # noqa: S311  (any of them will do)
        failures = refusals = 0
        while True:
            # Who tells a large catalogue needs longer than who has nothing to tell: each time there is more patience.
            patience_seconds = min(self._patience_seconds * 2 ** min(failures, _DOUBLINGS_MAX), _PATIENCE_SECONDS_MAX)
            try:
                async with aclosing(self._told_by(target, patience_seconds)) as events:
                    async for event in events:
                        failures = refusals = 0
                        yield event
                reason = "it has ended the call"
            except _Behind as behind:
                reason = str(behind)
            except aio.AioRpcError as error:
                reason = f"{error.code().name.lower()}: {error.details()}"
                refusals += error.code() in STRANGER
                if refusals >= replicas_count and self._version is None:
                    raise StrangerError(error.details()) from error
            address = self._connections.addresses[target]
            # While nobody answers, an hour of it is a dozen lines.
            level = logging.WARNING if failures & (failures - 1) == 0 else logging.DEBUG
            _log.log(level, "the catalogue is not followed at %s any more: %s", address, reason)
            target = (target + 1) % replicas_count
            pause_seconds = min(_PAUSE_SECONDS * 2 ** min(failures, _DOUBLINGS_MAX), _PAUSE_SECONDS_MAX)
            await asyncio.sleep(random.uniform(0.5, 1) * pause_seconds)  # noqa: S311  (so that callers do not march)
            failures += 1

    async def _told_by(self, target: int, patience_seconds: float) -> AsyncGenerator[CatalogueEvent, None]:
        request = WatchRequest(after_version=self._version)
        call = self._connections.stubs[target].Watch(request, metadata=self._connections.metadata)
        looking = asyncio.create_task(self._look_after(call, target, patience_seconds), name="catalogue-look")
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

    def _accepted(self, response: WatchResponse) -> CatalogueEvent | None:
        if response.HasField("snapshot"):
            version = response.snapshot.version
            if version < max(self._wanted, self._version or 0):
                raise _Behind(f"its catalogue has version {version}, and {self._wanted} was seen before")
            return response.snapshot if version != self._version else None
        if self._version is None or response.update.version != self._version + 1:
            raise _Behind(f"version {response.update.version} does not follow {self._version}")
        return response.update

    async def _look_after(self, call: _Call, target: int, patience_seconds: float) -> str:
        """Look at all replicas whenever nothing was told for a while; end the call if another one knows more.

        Returns:
            Why it was ended.
        """
        behind_since: float | None = None
        generation = self._connections.generation
        while True:
            seen = self._version
            if self._connections.generation != generation:
                call.cancel()
                return "the replicas are trusted by another authority now"
            is_late = seen is None or self._wanted > seen or behind_since is not None
            await self._wait(patience_seconds / 2 if is_late else self._look_seconds)
            if self._is_told_since(seen):
                behind_since = None
                continue
            reason = await self._lag(target)
            if reason is None or self._is_told_since(seen):
                behind_since = None
            elif behind_since is None:
                behind_since = time.monotonic()
            elif time.monotonic() - behind_since >= patience_seconds:
                call.cancel()
                return reason

    def _is_told_since(self, seen: int | None) -> bool:
        return self._is_busy or self._version != seen

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._expected.wait(), seconds)
            self._expected.clear()
            # Mostly the update is on its way, as the reply was.
            await asyncio.sleep(self._patience_seconds / 4)

    async def _lag(self, target: int) -> str | None:
        """What speaks against listening to this replica; None: it tells everything that is known."""
        found = await statuses(self._connections, self._patience_seconds)
        answers = [status for status in found if status is not None]
        known = max([self._wanted, *(status.version for status in answers)])
        if found[target] is None and answers:
            return "it does not answer, and others do"
        if self._version is None:
            return "it tells nothing"
        if known > self._version:
            return f"it tells nothing beyond version {self._version}, and {known} is known"
        if 2 * len(answers) > len(found):
            self._current_at = time.monotonic()
        return None


class _Behind(Exception):
    """The replica tells less than is known."""


async def _read(call: _Call, looking: asyncio.Task[str]) -> WatchResponse | None:
    try:
        response = await call.read()
    except asyncio.CancelledError:
        # Either somebody ends this task, or it was found that another replica should be listened to.
        task = asyncio.current_task()
        if looking.done() and not looking.cancelled() and not (task is not None and task.cancelling()):
            raise _Behind(looking.result()) from None
        raise
    return response if isinstance(response, WatchResponse) else None
