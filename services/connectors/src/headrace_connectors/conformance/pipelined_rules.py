"""Rules for sources that are polled ahead: batches in flight are distinct, come again, and are committed in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

from headrace_connectors.conformance.cancelling import cancelled_at_wait, waits
from headrace_connectors.conformance.cases import SourceCase
from headrace_connectors.conformance.rules import NotChecked, Violation, rule
from headrace_connectors.conformance.source_rules import identities
from headrace_connectors.contract import Batch, Pipelined, Source, Unavailable

_FED: Final = 9
_FURTHER: Final = 3
_RETRY_SECONDS: Final = 0.01
_MOMENT: Final = 0.2
"""Part of the time for an answer after which more is fed."""


class _Ahead:
    """Polls a source ahead.

    Args:
        case: The case.
        source: The source, opened.
    """

    def __init__(self, case: SourceCase, source: Source) -> None:
        self._case = case
        self.source = cast("Pipelined", source)
        self.flight: list[Batch] = []
        """Batches that are not committed, the oldest first."""

    async def poll(self, *, feeds: bool = True) -> Batch:
        """Return the next batch with records, after feeding more if none comes.

        Raises:
            Violation: None comes.
        """
        seconds = self._case.seconds
        try:
            if feeds:
                try:
                    return await asyncio.wait_for(self.polled(), seconds * _MOMENT)
                except TimeoutError:
                    await self._case.feed(_FURTHER)
            return await asyncio.wait_for(self.polled(), seconds)
        except TimeoutError as error:
            raise Violation(
                f"records were fed, and no poll ahead returns them within {seconds:g} s, while {len(self.flight)} "
                "batches are not committed"
            ) from error

    async def polled(self) -> Batch:
        """Return the next batch with records, however long it takes."""
        while True:
            try:
                batch = await self.source.poll_ahead()
            except Unavailable:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if batch is None:
                continue
            self.flight.append(batch)
            if batch.records:
                return batch
            if len(self.flight) == 1:
                # A new state, for which the source may wait.
                await self.commit(batch)

    async def commit(self, batch: Batch) -> None:
        """Commit a batch, and those before it."""
        number = next(number for number, one in enumerate(self.flight) if one is batch)
        del self.flight[: number + 1]
        await self.source.commit_batch(batch)

    async def rewind(self) -> None:
        """Go back to the last commit."""
        self.flight.clear()
        await self.source.rewind()

    async def until(self, wanted: set[int], what: str) -> set[int]:
        """Poll until records have come; return the identities of all that came.

        Raises:
            Violation: They have not.
        """
        came: set[int] = set()
        try:
            async with asyncio.timeout(self._case.seconds):
                while not wanted <= came:
                    came |= identities((await self.polled()).records)
        except TimeoutError as error:
            raise Violation(f"{len(wanted - came)} of {len(wanted)} records {what} do not come again") from error
        return came


@asynccontextmanager
async def _ahead(case: SourceCase, state: bytes | None = None) -> AsyncIterator[_Ahead]:
    """Open a source that is polled ahead.

    Raises:
        NotChecked: It is not with these settings.
    """
    kind = case.loaded()
    if not issubclass(kind, Pipelined):
        raise NotChecked("the source cannot be polled ahead (`Pipelined`)")
    if (refusal := kind.pipelining_refusal(kind.settings_type.model_validate(case.settings()))) is not None:
        raise NotChecked(f"the source cannot be polled ahead: {refusal}")
    source = case.create()
    try:
        await source.open(state)
        yield _Ahead(case, source)
    finally:
        await source.close()


@rule
async def polls_ahead_go_on(case: SourceCase) -> None:
    """A poll ahead returns the records after those of the poll before, which is not committed."""
    await case.feed(_FED)
    async with _ahead(case) as reader:
        first, second = await reader.poll(), await reader.poll()
    if identities(first.records) & identities(second.records):
        raise Violation("the second poll returns records of the first one, which were not rewound")


@rule
async def rewind_returns_what_is_not_committed(case: SourceCase) -> None:
    """After a rewind the records of all batches that are not committed come again, with the same ids."""
    await case.feed(_FED)
    async with _ahead(case) as reader:
        wanted = identities((await reader.poll()).records) | identities((await reader.poll()).records)
        for _ in range(2):
            await reader.rewind()
            await reader.until(wanted, "of two batches that were rewound")


@rule
async def commit_of_a_batch_covers_those_before(case: SourceCase) -> None:
    """The commit of a batch commits those before it, and none after it."""
    await case.feed(_FED)
    async with _ahead(case) as reader:
        first, second, third = await reader.poll(), await reader.poll(), await reader.poll()
        done, wanted = identities(first.records) | identities(second.records), identities(third.records)
        await reader.commit(second)
        await reader.rewind()
        came = await reader.until(wanted, "after the committed batch")
    if came & done:
        raise Violation("records of a batch come again that was committed by a later one")
    if second.state is None:
        return
    async with _ahead(case, second.state) as reader:
        came = await reader.until(wanted, "after the state")
    if came & done:
        raise Violation("records that the state covers come again after a restart with it")


@rule
async def polls_ahead_destroy_nothing(case: SourceCase) -> None:
    """The other side keeps what is in flight: neither a poll ahead, nor a rewind, nor the commit of a batch before."""
    await case.feed(_FED)
    before = await case.kept()
    if before is None:
        raise NotChecked("commits of the source change nothing at the other side, or the case does not look")
    async with _ahead(case) as reader:
        first, second = await reader.poll(feeds=False), await reader.poll()
        await _kept(case, before, "two polls ahead leave")
        await reader.commit(first)
        await _kept(case, len(identities(second.records)), "the commit of the batch before leaves")
        await reader.rewind()
        await _kept(case, len(identities(second.records)), "a rewind leaves")


async def _kept(case: SourceCase, count: int, what: str) -> None:
    now = await case.kept()
    if now is not None and now < count:
        raise Violation(f"{what} {now} records at the other side, of {count} that are not committed")


@rule
async def batches_are_committed_while_a_poll_waits(case: SourceCase) -> None:
    """A batch can be committed while a poll ahead waits for records, and the poll goes on."""
    await case.feed(_FURTHER)
    async with _ahead(case) as reader:
        last = await reader.poll()
        came = identities(last.records)
        with suppress(TimeoutError):
            for _ in range(_FURTHER):
                last = await asyncio.wait_for(reader.polled(), case.seconds * _MOMENT)
                came |= identities(last.records)
        waiting = asyncio.create_task(reader.polled())
        try:
            # It is in the middle of its work then, or waits.
            for _ in range(5):
                await asyncio.sleep(0)
            try:
                await asyncio.wait_for(reader.commit(last), case.seconds)
            except TimeoutError as error:
                raise Violation("a commit waits for the poll ahead, which waits for records") from error
            await case.feed(_FURTHER)
            try:
                following = await asyncio.wait_for(waiting, case.seconds)
            except TimeoutError as error:
                raise Violation("a poll ahead returns nothing more after a commit beside it") from error
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})
    if came & identities(following.records):
        raise Violation("records of the committed batch come again")


@rule
async def cancelled_poll_ahead_loses_nothing(case: SourceCase) -> None:
    """A poll ahead can be cancelled wherever it waits: no record is lost after a rewind."""
    await case.feed(_FED)
    async with _ahead(case) as reader:
        wanted = identities((await reader.poll()).records)
        for wait in waits():
            await reader.rewind()
            if not await cancelled_at_wait("poll_ahead", reader.source.poll_ahead(), wait):
                break
        await reader.rewind()
        await reader.until(wanted, "after polls that were cancelled")


RULES: Final = (
    polls_ahead_go_on,
    rewind_returns_what_is_not_committed,
    commit_of_a_batch_covers_those_before,
    polls_ahead_destroy_nothing,
    batches_are_committed_while_a_poll_waits,
    cancelled_poll_ahead_loses_nothing,
)
