"""Rules for sources: what is polled comes again until it is committed, and nothing is lost or destroyed before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec

from headrace_connectors.conformance.cancelling import cancelled_at_wait, waits
from headrace_connectors.conformance.cases import SourceCase
from headrace_connectors.conformance.rules import NotChecked, Violation, rule
from headrace_connectors.contract import (
    Batch,
    Cdc,
    ConnectorError,
    Opaque,
    Polling,
    Record,
    Source,
    StateVersionMismatch,
    Unavailable,
    stable_id,
)

_FED: Final = 3
_RETRY_SECONDS: Final = 0.01
_MOMENT_SECONDS: Final = 0.05


class _Envelope(msgspec.Struct):
    version: int
    state: msgspec.Raw


@asynccontextmanager
async def opened(case: SourceCase, state: bytes | None = None) -> AsyncIterator[Source]:
    """Open a source for a ``with`` block."""
    source = case.create()
    try:
        await source.open(state)
        yield source
    finally:
        await source.close()


class _Reader:
    """Polls and commits as the runtime does.

    Args:
        case: The case.
        source: The source, opened.
        state: State that it was opened with.
    """

    def __init__(self, case: SourceCase, source: Source, state: bytes | None = None) -> None:
        self._case = case
        self._source = source
        self.state = state
        """Newest state of a commit."""

    async def poll(self) -> Batch:
        """Return the next batch, with or without records."""
        try:
            async with asyncio.timeout(self._case.seconds):
                while True:
                    try:
                        batch = await self._source.poll()
                    except Unavailable:
                        await asyncio.sleep(_RETRY_SECONDS)
                        continue
                    if batch is not None:
                        return batch
        except TimeoutError as error:
            raise Violation(f"records were fed, and no poll returns them within {self._case.seconds:g} s") from error

    async def commit(self, batch: Batch) -> None:
        """Commit a batch."""
        if batch.state is not None:
            self.state = batch.state
        await self._source.commit()

    async def records(self) -> Batch:
        """Return the next batch that has records; it is not committed."""
        while True:
            batch = await self.poll()
            if batch.records:
                return batch
            await self.commit(batch)

    async def with_state(self) -> Batch:
        """Return the first batch that has a state; it is not committed.

        Raises:
            NotChecked: The source has no states.
        """
        came: set[int] = set()
        # The state of a log of changes may follow the rows that were there before.
        while isinstance(self._source.mode(), Cdc) or len(came) < _FED:
            batch = await self.poll()
            if batch.state is not None:
                return batch
            came |= identities(batch.records)
            await self.commit(batch)
        raise NotChecked("the source has no state")

    async def until(self, wanted: set[int], what: str) -> set[int]:
        """Poll and commit until records have come; return the identities of all that came.

        Raises:
            Violation: They have not.
        """
        came: set[int] = set()
        try:
            async with asyncio.timeout(self._case.seconds):
                while not wanted <= came:
                    batch = await self.poll()
                    came |= identities(batch.records)
                    await self.commit(batch)
        except (TimeoutError, Violation) as error:
            raise Violation(f"{len(wanted - came)} of {len(wanted)} records {what} do not come again") from error
        return came

    async def count(self, count: int) -> set[int]:
        """Poll and commit until there were so many different records; return their identities."""
        came: set[int] = set()
        while len(came) < count:
            batch = await self.poll()
            came |= identities(batch.records)
            await self.commit(batch)
        return came


def identities(records: Sequence[Record]) -> set[int]:
    """Return what identifies records: their ids, or their payloads if they have no ids."""
    return {record.id or stable_id(msgspec.json.encode(record.payload, enc_hook=str)) for record in records}


@rule
async def mode_is_known(case: SourceCase) -> None:
    """The source reports its mode before it is opened, and the same one while it runs."""
    source = case.create()
    before = source.mode()
    if not isinstance(before, Cdc | Polling | Opaque):
        raise Violation(f"mode is {before!r}, which is none of Cdc, Polling and Opaque")
    try:
        await source.open(None)
        if source.mode() != before:
            raise Violation(f"mode is {before!r} before open, and {source.mode()!r} afterwards")
    finally:
        await source.close()


@rule
async def records_are_distinct(case: SourceCase) -> None:
    """A batch has records, with ids of 128 bits, and no id twice."""
    await case.feed(_FED)
    async with opened(case) as source:
        batch = await _Reader(case, source).records()
    for record in batch.records:
        if not isinstance(record, Record):
            raise Violation(f"a batch has a {type(record).__name__} in place of a Record")
        if not 0 <= record.id < 2**128:
            raise Violation(f"a record has the id {record.id}, which has more than 128 bits")
    given = [record.id for record in batch.records if record.id]
    if len(set(given)) < len(given):
        raise Violation("different records of a batch have the same id: readers would drop one of them")


@rule
async def uncommitted_records_come_again(case: SourceCase) -> None:
    """A poll that no commit follows is repeated: its records come again, with the same ids."""
    await case.feed(_FED)
    async with opened(case) as source:
        reader = _Reader(case, source)
        batch = await reader.records()
        await reader.until(identities(batch.records), "that were polled and not committed")


@rule
async def restart_continues_after_the_last_commit(case: SourceCase) -> None:
    """A restart from the state of the last commit gives later records with the same ids, and no earlier ones."""
    await case.feed(_FED)
    async with opened(case) as source:
        reader = _Reader(case, source)
        committed = await reader.records()
        await reader.commit(committed)
        await case.feed(_FED)
        pending = await reader.records()
    async with opened(case, reader.state) as source:
        came = await _Reader(case, source, reader.state).until(
            identities(pending.records) - identities(committed.records), "that were polled before the restart"
        )
    if committed.state is not None and identities(committed.records) & came:
        raise Violation("records that the state covers come again after a restart with it")


@rule
async def missed_commit_is_made_up_for(case: SourceCase) -> None:
    """After a restart with a state whose commit is missing, its records do not come again, and the commit is made."""
    await case.feed(_FED)
    async with opened(case) as source:
        reader = _Reader(case, source)
        pending = await reader.with_state()
    await case.feed(_FED)
    async with opened(case, pending.state) as source:
        reader = _Reader(case, source, pending.state)
        following = await reader.records()
        if identities(following.records) & identities(pending.records):
            raise Violation("records that the state covers come again after a restart with it")
        await reader.commit(following)
        try:
            async with asyncio.timeout(case.seconds):
                # The other side may need a moment for the work of a commit.
                while await case.kept():
                    with suppress(TimeoutError):
                        await reader.commit(await asyncio.wait_for(reader.poll(), _MOMENT_SECONDS))
        except TimeoutError as error:
            raise Violation(
                f"{await case.kept()} records stay at the other side: the missed commit was not made after the restart"
            ) from error


@rule
async def nothing_is_destroyed_before_the_commit(case: SourceCase) -> None:
    """Only a commit deletes, marks or advances at the other side: no poll, no close and no trial does."""
    await case.feed(_FED)
    before = await case.kept()
    if before is None:
        raise NotChecked("commits of the source change nothing at the other side, or the case does not look")
    source = case.create()
    try:
        await source.open_read_only(None)
        await _Reader(case, source).poll()
    except ConnectorError:
        # A trial may need what the first start creates.
        pass
    finally:
        await source.close()
    await _unchanged(case, before, "a trial (open_read_only, poll, close)")
    async with opened(case) as source:
        reader = _Reader(case, source)
        await reader.records()
        await _unchanged(case, before, "a poll")
        await reader.records()
        await _unchanged(case, before, "a repeated poll")
    await _unchanged(case, before, "a close")


async def _unchanged(case: SourceCase, before: int, what: str) -> None:
    now = await case.kept()
    if now != before:
        raise Violation(f"{what} leaves {now} of {before} records at the other side, without a commit")


@rule
async def commit_is_repeatable(case: SourceCase) -> None:
    """A commit may be called twice for the same records."""
    await case.feed(_FED)
    async with opened(case) as source:
        reader = _Reader(case, source)
        first = await reader.records()
        await reader.commit(first)
        await reader.commit(first)
        await case.feed(_FED)
        following = await reader.records()
        if first.state is not None and identities(first.records) & identities(following.records):
            raise Violation("records come again after a commit that was repeated")


@rule
async def state_of_another_version_is_refused(case: SourceCase) -> None:
    """A state has a version: its own is read again, another one is a StateVersionMismatch, and damage is an error."""
    await case.feed(_FED)
    async with opened(case) as source:
        reader = _Reader(case, source)
        await reader.commit(await reader.with_state())
    if reader.state is None:
        raise AssertionError("the batch has a state")
    try:
        envelope = msgspec.json.decode(reader.state, type=_Envelope)
    except msgspec.MsgspecError as error:
        raise Violation(f"the state is not made by encode_state: {error}") from error
    async with opened(case, reader.state):
        pass
    other = msgspec.json.encode(_Envelope(envelope.version + 1, envelope.state))
    await _refused(case, other, StateVersionMismatch, "a state of another version")
    await _refused(case, reader.state[: len(reader.state) // 2], ConnectorError, "a damaged state")


async def _refused(case: SourceCase, state: bytes, kind: type[ConnectorError], what: str) -> None:
    source = case.create()
    try:
        await source.open(state)
    except kind:
        return
    except Exception as error:
        raise Violation(f"{what} is refused with {type(error).__name__}, not with {kind.__name__}: {error}") from error
    finally:
        await source.close()
    raise Violation(f"{what} is taken: open has to raise {kind.__name__}")


@rule
async def close_is_repeatable(case: SourceCase) -> None:
    """The source can be closed before it was opened, and twice."""
    source = case.create()
    await source.close()
    source = case.create()
    await source.open(None)
    await source.close()
    await source.close()


@rule
async def cancelled_poll_loses_nothing(case: SourceCase) -> None:
    """A poll can be cancelled wherever it waits: no record is lost, and the next poll works."""
    await case.feed(_FED)
    async with opened(case) as source:
        reader = _Reader(case, source)
        for wait in waits():
            if not await cancelled_at_wait("poll", source.poll(), wait):
                break
        await reader.count(_FED)


@rule
async def cancelled_close_can_be_repeated(case: SourceCase) -> None:
    """A close can be cancelled wherever it waits: the next one completes it, and the source can be opened again."""
    await case.feed(_FED)
    for wait in waits():
        source = case.create()
        try:
            await source.open(None)
            await _Reader(case, source).poll()
            is_cancelled = await cancelled_at_wait("close", source.close(), wait)
        finally:
            await source.close()
        if not is_cancelled:
            return


RULES: Final = (
    mode_is_known,
    records_are_distinct,
    uncommitted_records_come_again,
    restart_continues_after_the_last_commit,
    missed_commit_is_made_up_for,
    nothing_is_destroyed_before_the_commit,
    commit_is_repeatable,
    state_of_another_version_is_refused,
    close_is_repeatable,
    cancelled_poll_loses_nothing,
    cancelled_close_can_be_repeated,
)
