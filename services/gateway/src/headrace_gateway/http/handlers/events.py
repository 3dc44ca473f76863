"""Server-sent events of new messages."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import hdrs, web

import headrace_core as core
from headrace_gateway.access.tokens import InvalidToken
from headrace_gateway.http.answers import write
from headrace_gateway.http.call import Call, ask, identifier
from headrace_gateway.http.models.messages import EventsQuery, Strategy
from headrace_gateway.http.polls import cut, off_loop
from headrace_gateway.http.routes import Nothing, Raw, Routes
from headrace_gateway.http.sessions.waits import WaitEnded
from headrace_gateway.json_api.errors import Refused, Rejected, event_of
from headrace_gateway.json_api.memory import Exhausted
from headrace_gateway.json_api.numbers import U64_MAX
from headrace_node.connections.sessions import Session, SessionLost
from headrace_proto.errors import Status

routes = Routes()

_STREAM: Final = "text/event-stream"
# Interval of comments on a silent stream; they detect disconnected callers and keep proxies from closing the
# connection.
_SILENCE_MICROS: Final = 15_000_000
_RESUMED: Final = "Last-Event-ID"
_DIGITS_MAX: Final = len(str(U64_MAX))


@routes.add(
    "GET",
    "/streams/{stream_id}/topics/{topic_id}/events",
    tag="messages",
    query=EventsQuery,
    headers={
        _RESUMED: {
            "type": "string",
            "pattern": "^(0|[1-9][0-9]{0,18})$",
            "description": "Offset of the last received message; the stream continues after it, regardless of the "
            "query.",
        }
    },
    answer=Raw(_STREAM, {"type": "string"}),
    errors=(400, 403, 404),
)
async def watch_messages(call: Call[EventsQuery, Nothing]) -> web.StreamResponse:
    """Stream of new messages of one partition as server-sent events, until the caller closes the connection.

    The id of an event is the offset of its message, its data the message as in a poll. A browser that reconnects sends
    the last id and continues after it, without duplicates. An event `gap` names messages that were deleted before they
    could be read, with `from` and `to` as in a poll. An event `error` with the code of the binary protocol is the last
    one: the topic was deleted, or the permission or the token is no longer valid.
    """
    resumed = call.request.headers.get(_RESUMED)
    if resumed is not None and not _is_offset(resumed):
        raise Rejected(400, f"{_RESUMED} must be the offset of a message.")
    events = _Events(call, int(resumed) + 1 if resumed is not None else None)
    async with call.services.waits.session(call.user_id) as session:
        # A refusal can have its own HTTP status only before the first write.
        first = await events.first(session)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: _STREAM, hdrs.CACHE_CONTROL: "no-store"})
        call.prepare(response)
        await response.prepare(call.request)
        with suppress(WaitEnded, ConnectionError):
            try:
                text = first or b": begun\n\n"
                while True:
                    await write(call.request, response, text)
                    # The next messages need the memory only when they are there.
                    call.held.resize(0)
                    await events.sent(session)
                    call.check_token()
                    text = await events.following(session) or b": silence\n\n"
            except Refused as error:
                await write(call.request, response, _last_event(error))
            except Exhausted:
                refused = Refused(Status.TOO_MANY_WAITS, "Other answers use the memory.")
                await write(call.request, response, _last_event(refused))
            except InvalidToken:
                await write(call.request, response, _last_event(Refused(Status.UNAUTHENTICATED)))
            except SessionLost:
                await write(call.request, response, _last_event(Refused(Status.DISCONNECTED)))
    return response


def _is_offset(text: str) -> bool:
    # Python refuses to convert thousands of digits.
    return len(text) <= _DIGITS_MAX and text.isascii() and text.isdigit() and int(text) < U64_MAX


class _Events:
    """Read position of a caller in a partition."""

    def __init__(self, call: Call[EventsQuery, Nothing], offset: int | None) -> None:
        self._call = call
        self._offset = offset
        self._unsaved: int | None = None
        # Starting at the end is the only start position that the protocol does not have.
        self._kind: Strategy | None = call.query.kind if call.query.kind != "end" else None
        self._value = call.query.value
        # Timestamp of the message before the position, if known.
        self._timestamp: int | None = None
        self._consumer = identifier(call.query.consumer_id, "consumer_id")

    async def first(self, session: Session) -> bytes:
        """Return the first messages."""
        query = self._call.query
        if self._offset is not None:
            return await self._events(session, "offset", self._offset, 0)
        if self._kind is not None:
            return await self._events(session, self._kind, self._value, 0)
        # This poll only determines the end; its messages are neither returned nor stored.
        encoded = core.encode_poll_messages(
            stream=self._call.stream, topic=self._call.topic, partition=query.partition_id, strategy="last", count=1
        )
        found = core.decode_polled(await self._ask(session, encoded))
        if found.last_offset is not None:
            self._passed(found)
        else:
            self._offset = await self._begin(session)
        return b""

    async def _begin(self, session: Session) -> int:
        """Return the first offset of a partition without messages, which is not 0 if all were removed."""
        encoded = core.encode_wait_messages(
            stream=self._call.stream,
            topic=self._call.topic,
            partition=self._call.query.partition_id,
            strategy="offset",
            count=1,
            maximum_wait_micros=0,
            names_gap=True,
        )
        payload = await self._ask(session, encoded)
        gap = core.decode_polled(payload, names_gap=True).gap
        return gap[1] if gap is not None else 0

    async def following(self, session: Session) -> bytes:
        """Return the next messages; nothing after some time of silence."""
        if self._offset is None and self._kind is not None:
            return await self._events(session, self._kind, self._value, _SILENCE_MICROS)
        return await self._events(session, "offset", self._offset or 0, _SILENCE_MICROS)

    async def sent(self, session: Session) -> None:
        """Store the position after the messages were sent."""
        if not self._call.query.auto_commit or self._unsaved is None:
            return
        encoded = core.encode_store_consumer_offset(
            stream=self._call.stream,
            topic=self._call.topic,
            consumer=self._consumer,
            partition=self._call.query.partition_id,
            offset=self._unsaved,
        )
        await ask(session, encoded)
        self._unsaved = None

    async def _events(self, session: Session, kind: Strategy, value: int, wait_micros: int) -> bytes:
        call, query = self._call, self._call.query
        encoded = core.encode_wait_messages(
            stream=call.stream,
            topic=call.topic,
            consumer=self._consumer,
            partition=query.partition_id,
            strategy=kind,
            value=value,
            count=min(query.count, call.services.config.max_poll_count),
            minimum_bytes=1,
            maximum_wait_micros=wait_micros,
            names_gap=True,
        )
        payload = cut(await self._ask(session, encoded), call.services.config.max_poll_size.bytes)
        text, last_offset = await off_loop(
            payload,
            lambda: core.polled_events(payload, numbers_as_text=query.numbers == "text", names_gap=True),
        )
        call.held.hold_answer(len(text))
        polled = core.decode_polled(payload, names_gap=True)
        if last_offset is not None:
            self._passed(polled)
            self._unsaved = last_offset
        elif text and polled.gap is not None:
            # There are no messages after the gap yet; it is not to be named again.
            self._offset = polled.gap[1]
        elif self._offset is not None and 0 < polled.current_offset < self._offset - 1:
            self._cut(polled.current_offset + 1)
        return text

    async def _ask(self, session: Session, encoded: tuple[int, bytes]) -> bytes:
        return await self._call.services.waits.ask(self._call.request, session, encoded, self._call.admit)

    def _passed(self, polled: core.MessageBatch) -> None:
        """Continue behind these messages."""
        last = polled[len(polled) - 1]
        self._offset, self._timestamp = last.offset + 1, last.timestamp_micros

    def _cut(self, end: int) -> None:
        """Handle an end before the position: messages were lost with the power of their node, or were purged.

        The offsets from the loss on are those of new messages, of which some may exist by now: they are newer than what
        was read. Without its time, reading continues with later ones. An answer whose current offset is 0 does not come
        here: it may be that of a node that stops, which says nothing about the partition.
        """
        if self._timestamp is None:
            self._offset = end
        else:
            self._offset, self._kind, self._value = None, "timestamp", self._timestamp + 1


def _last_event(error: Refused) -> bytes:
    return b"event: error\ndata: " + msgspec.json.encode(event_of(error)) + b"\n\n"
