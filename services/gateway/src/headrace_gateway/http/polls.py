"""Answers to polls: cut to a size, converted to JSON, counted, and only then noted as read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from struct import Struct
from typing import Final, TypeVar

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call, Query
from headrace_gateway.http.routes import JSON, Nothing
from headrace_gateway.http.sessions.waits import WaitEnded, has_gone

Result = TypeVar("Result")
Encoded = tuple[int, bytes]

Commit = Callable[[int, int], Encoded]
"""Builds the command that stores an offset, given partition and offset."""
LARGE_BYTES: Final = 64 * 1024
"""Size from which a conversion takes longer than it takes to hand it to a thread."""

# The answer to a poll (docs/protocol-extensions.md): the gap, and partition, current offset, and count.
_HEAD: Final = Struct("<QQIQI")
_COUNT: Final = Struct("<I")
# The lengths of headers and payload in the head of a message.
_LENGTHS: Final = Struct("<II")
_LENGTHS_AT: Final = 48
_MESSAGE_HEAD_BYTES: Final = 64


Poll = Callable[[int], Encoded]
"""Builds the poll, given its maximum wait in microseconds."""


async def polled_in_turn(
    call: Call[Query, Nothing],
    ask: Callable[[Encoded], Awaitable[bytes]],
    poll: Poll,
    consumer: Hashable,
    *,
    wait_micros: int,
    commit: Commit,
    numbers_as_text: bool,
) -> web.Response:
    """Poll behind the stored offset of a consumer, and store the offset of what is returned.

    Polls of the consumer at the same time share the messages: one that was read while another one stored its offset is
    repeated, and waits for the rest of its time if nothing is left.

    Args:
        call: Request to answer.
        ask: Executes a command; returns the payload of its answer.
        poll: Builds the poll, without auto-commit.
        consumer: The consumer in its partition.
        wait_micros: Maximum wait.
        commit: Builds the command that stores an offset of a partition.
        numbers_as_text: Quote the numbers that a double cannot hold.

    Raises:
        Exhausted: There is no memory for the answer.
        WaitEnded: The caller has disconnected.
        Refused: An answer is an error.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + wait_micros / 1e6
    with call.services.turns.of(consumer) as turn:
        while True:
            before = turn.stored_count
            payload = await ask(poll(max(0, int((deadline - now()) * 1e6)) if wait_micros else 0))
            async with turn.lock:
                is_repeated = turn.stored_count != before
                if is_repeated:
                    call.held.resize(0)
                    payload = await ask(poll(0))
                if core.decode_polled(payload, names_gap=True).last_offset is not None:
                    turn.stored_count += 1
                elif is_repeated and now() < deadline:
                    continue
                return await _answer(call, ask, payload, commit=commit, numbers_as_text=numbers_as_text)


async def polled_answer(
    call: Call[Query, Nothing],
    ask: Callable[[Encoded], Awaitable[bytes]],
    encoded: Encoded,
    *,
    commit: Commit | None,
    numbers_as_text: bool,
) -> web.Response:
    """Poll, and return the messages as JSON with the gap before them.

    The command's own auto-commit would store the offset of messages that the caller does not get: because the answer
    is cut, because there is no memory for it, or because the caller has disconnected.

    Args:
        call: Request to answer.
        ask: Executes a command; returns the payload of its answer.
        encoded: The poll, without auto-commit.
        commit: Builds the command that stores an offset of a partition; None: no offset is stored.
        numbers_as_text: Quote the numbers that a double cannot hold.

    Raises:
        Exhausted: There is no memory for the answer.
        WaitEnded: The caller has disconnected.
        Refused: An answer is an error.
    """
    return await _answer(call, ask, await ask(encoded), commit=commit, numbers_as_text=numbers_as_text)


async def _answer(
    call: Call[Query, Nothing],
    ask: Callable[[Encoded], Awaitable[bytes]],
    polled: bytes,
    *,
    commit: Commit | None,
    numbers_as_text: bool,
) -> web.Response:
    payload = cut(polled, call.services.config.max_poll_size.bytes)
    body = await off_loop(payload, lambda: core.polled_json(payload, numbers_as_text=numbers_as_text, names_gap=True))
    call.held.hold_answer(len(body))
    if commit is not None:
        batch = core.decode_polled(payload, names_gap=True)
        if batch.last_offset is not None:
            if has_gone(call.request):
                raise WaitEnded
            await ask(commit(batch.partition_id, batch.last_offset))
    return web.Response(body=body, content_type=JSON)


def cut(payload: bytes, size_bytes_max: int) -> bytes:
    """Return the answer to a poll with the first of its messages up to a size, but with one at least.

    Args:
        payload: The answer, with its gap.
        size_bytes_max: Maximum size of the messages with their headers.
    """
    if len(payload) - _HEAD.size <= size_bytes_max:
        return payload
    count, end = 0, _HEAD.size
    while True:
        headers_bytes, payload_bytes = _LENGTHS.unpack_from(payload, end + _LENGTHS_AT)
        next_end = end + _MESSAGE_HEAD_BYTES + headers_bytes + payload_bytes
        if count and next_end - _HEAD.size > size_bytes_max:
            break
        count, end = count + 1, next_end
        if end >= len(payload):
            return payload
    return payload[: _HEAD.size - _COUNT.size] + _COUNT.pack(count) + payload[_HEAD.size : end]


async def off_loop(payload: bytes, convert: Callable[[], Result]) -> Result:
    """Return the result of a conversion of this payload, made in a thread if it is large."""
    return convert() if len(payload) < LARGE_BYTES else await asyncio.to_thread(convert)
