"""One source: poll, deliver, remember, commit; strictly in this order."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from headrace_connectors.contract import Abandonable, Batch, Cdc, ConnectorError, Opaque, Source, Unavailable
from headrace_connectors.failures import holds_up
from headrace_connectors.pipeline_file.models import DeliverySettings
from headrace_connectors.runtime.attempts import Attempts
from headrace_connectors.runtime.status import State, Status
from headrace_connectors.runtime.stopping import GraceOver, until_stop, with_grace
from headrace_connectors.storing.steps import InDoubt, Storing

_log = logging.getLogger(__name__)


class NotAbandonable(ConnectorError):
    """The source keeps no records that could be given up."""

    code = "not_abandonable"


class SourceLoop:
    """Runs one source until it is stopped or fails.

    Args:
        key: Name of the source.
        source: The source, not opened yet.
        create: Makes it anew, for reading again from the last state on.
        settings: Pauses and limits.
        status: Receives progress and failures.
        draw: Random numbers for pauses.
        may_go_on: Asked before each step that changes something; False ends the loop.
    """

    def __init__(
        self,
        key: str,
        source: Source,
        settings: DeliverySettings,
        status: Status,
        draw: random.Random | None = None,
        *,
        may_go_on: Callable[[], bool] = lambda: True,
        create: Callable[[], Source] | None = None,
    ) -> None:
        self._key = key
        self._source = source
        self._create = create
        self._settings = settings
        self._status = status
        self._may_go_on = may_go_on
        self._stop = asyncio.Event()
        self._attempts = Attempts(key, settings, status, self._stop, draw)
        # Held while the source works on a batch, so that a batch is never given up in the middle of its commit.
        self._busy = asyncio.Lock()
        self._abandoned = False

    @property
    def source(self) -> Source:
        """The source that runs."""
        return self._source

    def stop(self) -> None:
        """Ask the loop to end: pauses and polls end at once, a commit in progress gets its grace."""
        self._stop.set()

    async def run(self, storing: Storing) -> None:
        """Run the source.

        Raises:
            ConnectorError: It cannot go on.
            Exception: The plugin failed in another way.
        """
        try:
            if not await self._attempts.opened(partial(self._begin, storing)):
                return
            self._status.become(State.RUNNING)
            while not self._stop.is_set():
                await self._round(storing)
        finally:
            await storing.give_up_held()
            await self._source.close()

    async def _begin(self, storing: Storing) -> None:
        await self._source.open(await storing.recover())

    async def _round(self, storing: Storing) -> None:
        self._abandoned = False
        try:
            async with self._busy:
                batch = await until_stop(self._source.poll(), self._stop)
                if self._is_over():
                    return
                if batch is None:
                    await storing.rest()
                    return
                sent = await storing.send(batch)
            if self._is_over():
                await storing.discard(sent)
                return
            stored = await self._settled(storing, batch, sent)
        except Unavailable as error:
            await self._failed(storing, error)
            return
        except ConnectorError as error:
            # Not admitted, or invalid, and not to be dropped: what it needs may be corrected at any time.
            if isinstance(self._source.mode(), Opaque) or not holds_up(error):
                raise
            await self._failed(storing, error)
            return
        if stored is not None:
            await self._commit(stored, self._source.commit)

    async def _settled(self, storing: Storing, batch: Batch, sent: Any) -> int | None:
        """Settle a batch, however often it takes; return None if a stop was requested before."""
        while True:
            try:
                async with self._busy:
                    return await storing.settle(batch, sent)
            except InDoubt as error:
                await self._attempts.failed(error)
                if self._stop.is_set():
                    return None

    async def _failed(self, storing: Storing, error: Exception) -> None:
        has_lost = await storing.give_up_held()
        await self._attempts.failed(error)
        if has_lost:
            await self._open_anew(storing)

    async def _begin_again(self, storing: Storing) -> None:
        if await storing.give_up_held():
            await self._open_anew(storing)

    async def _open_anew(self, storing: Storing) -> None:
        if self._create is None:
            return
        # The source has gone on behind records that do not count: it begins again after the last state.
        await self._source.close()
        self._source = self._create()
        await self._attempts.opened(partial(self._source.open, storing.state))

    async def _commit(self, stored: int, commit: Callable[[], Awaitable[None]], batches_count: int = 1) -> bool:
        """Commit what is stored; return False if it is not, and the source goes on without, or ends."""
        mode = self._source.mode()
        while True:
            if self._is_over():
                return False
            try:
                async with self._busy:
                    await with_grace(commit(), self._stop, self._settings.commit_stop_grace.seconds)
            except GraceOver:
                _log.warning(
                    "%s: stopped before its commit has ended; its records are read again at the next start", self._key
                )
                return False
            except Exception as error:
                if isinstance(mode, Opaque):
                    raise
                await self._attempts.failed(error)
                # A poll finds the same rows again; a log of changes is kept until it is committed.
                if not isinstance(mode, Cdc) or self._stop.is_set() or self._ends_commits():
                    return False
            else:
                break
        self._status.committed(stored, batches_count)
        self._attempts.succeeded()
        return True

    def _ends_commits(self) -> bool:
        """Return True if a commit that has failed is not needed any more."""
        return self._abandoned

    def _is_over(self) -> bool:
        """End the loop if it may not go on."""
        if self._may_go_on():
            return False
        self._stop.set()
        return True

    async def abandon(self) -> str | None:
        """Give up the pending batch, and let its server forget it: its records are lost.

        Returns:
            The position that was given up to; None: nothing was pending.

        Raises:
            NotAbandonable: The source is of another kind.
            Exception: The source could not do it.
        """
        source = self._source
        if not isinstance(source, Abandonable):
            raise NotAbandonable(f"{self._key} keeps nothing that could be given up: only change data capture does")
        async with self._busy:
            position = await source.abandon()
            self._abandoned = True
        self._status.abandoned(position)
        self._attempts.succeeded("a batch was abandoned")
        return position
