"""Rules for sinks: what is flushed is written, what is refused is named, and offsets that are stored are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from headrace_connectors.conformance.cancelling import cancelled_at_wait, waits
from headrace_connectors.conformance.cases import SinkCase
from headrace_connectors.conformance.rules import NotChecked, Violation, rule
from headrace_connectors.contract import InvalidRecord, Place, Received, Record, Sink, Unavailable

_PLACE: Final = Place("conformance", "topic", 0)
_OTHER: Final = Place("conformance", "topic", 1)
_RETRY_SECONDS: Final = 0.01


@asynccontextmanager
async def opened(case: SinkCase) -> AsyncIterator[Sink]:
    """Open a sink for a ``with`` block."""
    sink = case.create()
    try:
        await sink.open()
        yield sink
    finally:
        await sink.close()


def messages(case: SinkCase, numbers: range, place: Place = _PLACE) -> list[Received]:
    """Return messages whose offsets are the numbers of their payloads."""
    return [_message(case.payload(number), number, place) for number in numbers]


def _message(payload: Any, offset: int, place: Place = _PLACE) -> Received:
    return Received(Record(payload, id=offset + 1), place, offset, 1_700_000_000_000_000 + offset, None)


async def _again(case: SinkCase, call: Callable[[], Awaitable[None]]) -> None:
    """Call until the other side is available."""
    async with asyncio.timeout(case.seconds):
        while True:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(_RETRY_SECONDS)


async def _stored(case: SinkCase, sink: Sink, found: Sequence[Received], positions: Mapping[Place, int]) -> None:
    async def both() -> None:
        await sink.write(found)
        await sink.flush(positions)

    await _again(case, both)


async def _stores_offsets(case: SinkCase) -> bool:
    """Store a message; return True if the sink has stored its offset, too."""
    async with opened(case) as sink:
        await _stored(case, sink, messages(case, range(1)), {_PLACE: 1})
        return bool(await sink.positions([_PLACE]))


async def _expect(case: SinkCase, numbers: Sequence[int], what: str, *, once: bool) -> None:
    found = list(await case.written())
    if missing := sorted(set(numbers) - set(found)):
        raise Violation(f"{what}: {missing} are not written")
    if more := sorted(set(found) - set(numbers)):
        raise Violation(f"{what}: {more} are written, and should not be")
    if once and len(found) > len(numbers):
        raise Violation(f"{what}: {len(found) - len(numbers)} messages are written twice")


@rule
async def flush_makes_everything_durable(case: SinkCase) -> None:
    """A flush that has returned has brought everything to the other side: offsets are stored after it."""
    async with opened(case) as sink:
        await _again(case, lambda: sink.write(messages(case, range(3))))
        await _again(case, lambda: sink.write(messages(case, range(3, 5)) + messages(case, range(5, 7), _OTHER)))
        await sink.flush({_PLACE: 5, _OTHER: 7})
        # Nothing is closed yet, as in a process that is killed here.
        await _expect(case, range(7), "after a flush", once=True)


@rule
async def flush_without_messages_works(case: SinkCase) -> None:
    """A flush may follow no write at all: all messages of a batch may have been invalid."""
    async with opened(case) as sink:
        await sink.flush({_PLACE: 2})
        await _stored(case, sink, messages(case, range(2, 3)), {_PLACE: 3})
        await _expect(case, [2], "after a flush without messages and another one", once=True)


@rule
async def invalid_record_is_named_and_the_rest_is_not_written(case: SinkCase) -> None:
    """InvalidRecord has the index of its message, or none; its write has written nothing, and earlier ones stay."""
    invalid = case.invalid_payload()
    async with opened(case) as sink:
        await sink.write(messages(case, range(1)))
        good = messages(case, range(1, 4))
        try:
            await sink.write([*good[:2], _message(invalid, 9), good[2]])
        except InvalidRecord as error:
            if error.index not in (None, 2):
                raise Violation(
                    f"the message with index 2 is invalid, and InvalidRecord.index is {error.index}"
                ) from error
        except Exception as error:
            raise Violation(f"an invalid message is refused with {type(error).__name__}, not InvalidRecord") from error
        else:
            raise Violation("a payload that cannot be written is taken by write: flush could only lose or repeat it")
        await sink.write(good)
        await sink.flush({_PLACE: 10})
        await _expect(case, range(4), "after a refused message was left out", once=True)


@rule
async def unflushed_messages_are_written_again(case: SinkCase) -> None:
    """Messages that a process has not flushed are written by the next one, and once if offsets are stored."""
    once = await _stores_offsets(case)
    async with opened(case) as sink:
        await sink.write(messages(case, range(1, 3)))
    async with opened(case) as sink:
        if once and (position := (await sink.positions([_PLACE])).get(_PLACE)) != 1:
            raise Violation(f"the stored offset is {position} without a flush, and not 1")
        await _stored(case, sink, messages(case, range(1, 4)), {_PLACE: 4})
    await _expect(case, range(4), "after a process ended without a flush", once=once)


@rule
async def stored_offsets_are_those_of_flushes(case: SinkCase) -> None:
    """A sink with `positions` returns the offset of the last flush, in another process, too, and none for others."""
    if not await _stores_offsets(case):
        raise NotChecked("the sink stores no offsets")
    async with opened(case) as sink:
        found = dict(await sink.positions([_PLACE, _OTHER]))
        if found != {_PLACE: 1}:
            raise Violation(f"positions of a flushed and a new partition are {found}, and not {{{_PLACE}: 1}}")
        await _stored(case, sink, messages(case, range(1, 3)), {_PLACE: 5})
        await sink.flush({_PLACE: 2})
    async with opened(case) as sink:
        if (position := (await sink.positions([_PLACE])).get(_PLACE)) != 5:
            raise Violation(
                f"the stored offset is {position} after flushes with 5 and then 2: it moves back, or is lost"
            )


@rule
async def stored_messages_are_not_written_twice(case: SinkCase) -> None:
    """A sink with `positions` leaves out what is below them: another process may have had the partition meanwhile."""
    if not await _stores_offsets(case):
        raise NotChecked("the sink stores no offsets")
    async with opened(case) as first, opened(case) as second:
        await _stored(case, first, messages(case, range(1, 3)), {_PLACE: 3})
        await _stored(case, second, messages(case, range(4)), {_PLACE: 4})
        await _stored(case, first, messages(case, range(2, 4)), {_PLACE: 4})
    await _expect(case, range(4), "after two processes had the same messages", once=True)


@rule
async def forgotten_messages_are_written_once(case: SinkCase) -> None:
    """A sink with `positions` lets go of unflushed messages in `forget`: no flush of other ones makes them durable."""
    if not await _stores_offsets(case):
        raise NotChecked("the sink stores no offsets")
    async with opened(case) as sink:
        await _again(case, lambda: sink.write(messages(case, range(1, 3))))
        await sink.forget()
        await sink.flush({_OTHER: 1})
        await _expect(case, range(1), "after messages were forgotten, and others flushed", once=True)
        await sink.forget()
        await _stored(case, sink, messages(case, range(1, 4)), {_PLACE: 4})
    await _expect(case, range(4), "after messages were forgotten and written again", once=True)


@rule
async def close_is_repeatable(case: SinkCase) -> None:
    """The sink can be closed before it was opened, and twice."""
    await case.create().close()
    sink = case.create()
    await sink.open()
    await sink.close()
    await sink.close()


@rule
async def cancelled_calls_can_be_repeated(case: SinkCase) -> None:
    """A write, a flush and a close can be cancelled wherever they wait; what was not flushed is written again then."""
    once = await _stores_offsets(case)
    end = 1
    for step in ("write", "flush", "close"):
        for wait in waits():
            is_cancelled = await _interrupted(case, step, wait, range(end, end + 2))
            end += 2
            if not is_cancelled:
                break
    await _expect(case, range(end), "after calls were cancelled and repeated", once=once)


def _call(
    sink: Sink, step: str, found: Sequence[Received], positions: Mapping[Place, int]
) -> Coroutine[Any, Any, None]:
    if step == "write":
        return sink.write(found)
    return sink.flush(positions) if step == "flush" else sink.close()


async def _interrupted(case: SinkCase, step: str, wait: int, numbers: range) -> bool:
    """Write messages, with one call that is cancelled; return False if it has ended before."""
    found, positions = messages(case, numbers), {_PLACE: numbers.stop}
    async with opened(case) as sink:
        if step != "write":
            await _again(case, lambda: sink.write(found))
        is_cancelled = await cancelled_at_wait(step, _call(sink, step, found, positions), wait)
        if step != "close" and is_cancelled:
            await _stored(case, sink, found, positions)
        elif step == "write":
            await sink.flush(positions)
    if step == "close":
        async with opened(case) as sink:
            await _stored(case, sink, found, positions)
    return is_cancelled


RULES: Final = (
    flush_makes_everything_durable,
    flush_without_messages_works,
    invalid_record_is_named_and_the_rest_is_not_written,
    unflushed_messages_are_written_again,
    stored_offsets_are_those_of_flushes,
    stored_messages_are_not_written_twice,
    forgotten_messages_are_written_once,
    close_is_repeatable,
    cancelled_calls_can_be_repeated,
)
