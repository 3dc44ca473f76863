"""One source with several batches in flight: they are sent at a time, and settled and committed in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from headrace_connectors.contract import Batch, ConnectorError, Opaque, Pipelined, Unavailable
from headrace_connectors.failures import holds_up
from headrace_connectors.runtime.source_loop import SourceLoop
from headrace_connectors.runtime.stopping import until_stop
from headrace_connectors.storing.steps import Storing

# A transaction has a maximum number of stages, and each record has one at most.
_RECORDS_PER_COMMIT: Final = 10_000


@dataclass(slots=True, eq=False)
class _Flying:
    batch: Batch
    sending: asyncio.Task[Any]
    is_settled: bool = False
    """True if `settle` was called: the storage knows what was sent, and nothing is discarded here."""


class _CommitFailed(Exception):
    """The commit of rows that stay where they are has failed."""


class PipelinedLoop(SourceLoop):
    """Runs a `Pipelined` source. A task polls and sends ahead; batches are settled in order beside it.

    All leading batches that have been sent are settled together, with the state of the last one, and committed with
    one call. If a batch cannot be stored, nothing behind it is: what was sent of it is discarded, the source is
    rewound, and goes on with one batch at a time until one is committed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Parameters are those of `SourceLoop`."""
        super().__init__(*args, **kwargs)
        self._width = self._settings.batches_in_flight
        self._limit = self._width
        self._flying: deque[_Flying] = deque()
        # Set when a batch was polled, or none was for a while; and when one was committed.
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._is_idle = False
        # Held during a poll: a batch is never given up in the middle of one.
        self._polling = asyncio.Lock()

    @property
    def _ahead(self) -> Pipelined:
        return cast("Pipelined", self._source)

    async def abandon(self) -> str | None:
        """Give up the oldest batch that is not committed."""
        async with self._polling:
            return await super().abandon()

    def _ends_commits(self) -> bool:
        # The batches behind the one that was given up are stored, too, and are committed.
        return False

    async def _round(self, storing: Storing) -> None:
        """Poll, send, settle and commit until the stop, or a failure."""
        failure: Exception | None = None
        reading = asyncio.create_task(self._read(storing), name=f"{self._key}-ahead")
        try:
            await self._settle_all(storing, reading)
        except (Unavailable, _CommitFailed) as error:
            failure = error
        except ConnectorError as error:
            if isinstance(self._source.mode(), Opaque) or not holds_up(error):
                raise
            failure = error
        finally:
            await self._drop(storing, reading)
        if failure is None or self._stop.is_set():
            return
        self._limit = 1
        async with self._polling, self._busy:
            await self._ahead.rewind()
        if isinstance(failure, _CommitFailed):
            await self._begin_again(storing)
        else:
            await self._failed(storing, failure)

    # ---- polling and sending

    async def _read(self, storing: Storing) -> None:
        while not self._stop.is_set():
            if len(self._flying) >= self._limit:
                self._room.clear()
                await until_stop(self._room.wait(), self._stop)
                continue
            async with self._polling:
                batch = await until_stop(self._ahead.poll_ahead(), self._stop)
            if self._is_over():
                return
            if batch is None:
                self._is_idle = True
            else:
                sending = asyncio.create_task(storing.send(batch), name=f"{self._key}-send")
                self._flying.append(_Flying(batch, sending))
            self._news.set()

    async def _drop(self, storing: Storing, reading: asyncio.Task[None]) -> None:
        """Stop polling, and discard what is in flight and not settled."""
        reading.cancel()
        await asyncio.wait({reading})
        dropped = [one for one in self._flying if not one.is_settled]
        self._flying.clear()
        if dropped:
            # Batches that are on their way would come after those that are sent again.
            await asyncio.wait({one.sending for one in dropped})
        for one in dropped:
            if one.sending.exception() is None:
                await storing.discard(one.sending.result())

    # ---- settling

    async def _settle_all(self, storing: Storing, reading: asyncio.Task[None]) -> None:
        while True:
            if self._flying:
                await asyncio.wait({self._flying[0].sending})
                if not await self._settle_sent(storing):
                    return
            elif reading.done():
                # Its failure, if there is one, comes after what was polled before it.
                reading.result()
                return
            else:
                await self._news_of(reading)
                if self._is_idle and not self._flying and not self._is_over():
                    async with self._busy:
                        await storing.rest()
                self._is_idle = False

    async def _news_of(self, reading: asyncio.Task[None]) -> None:
        news = asyncio.create_task(self._news.wait())
        await asyncio.wait({news, reading}, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        self._news.clear()

    async def _settle_sent(self, storing: Storing) -> bool:
        """Settle and commit the leading batches that have been sent; return False if the loop is to end."""
        sent = self._sent()
        if self._is_over():
            return False
        newest = max((number for number, one in enumerate(sent) if one.batch.state is not None), default=-1)
        stored = 0
        for number, one in enumerate(sent):
            # The state behind the last one covers those before.
            batch = one.batch._replace(state=None) if number < newest else one.batch
            one.is_settled = True
            count = await self._settled(storing, batch, one.sending.result())
            if count is None:
                return False
            stored += count
        commit = partial(self._ahead.commit_batch, sent[-1].batch)
        if not await self._commit(stored, commit, len(sent)):
            if self._stop.is_set():
                return False
            raise _CommitFailed
        for _ in sent:
            self._flying.popleft()
        self._limit = self._width
        self._room.set()
        return True

    def _sent(self) -> list[_Flying]:
        """Return the leading batches that have been sent.

        Raises:
            Exception: The first one could not be sent.
        """
        self._flying[0].sending.result()
        sent: list[_Flying] = []
        count = 0
        for one in self._flying:
            if not one.sending.done() or one.sending.exception() is not None:
                break
            count += len(one.batch.records)
            if sent and count > _RECORDS_PER_COMMIT:
                break
            sent.append(one)
        return sent
