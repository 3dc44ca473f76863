"""Search for a text in messages."""

from __future__ import annotations

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.models.messages import FoundAnswer, SearchQuery
from headrace_gateway.http.polls import off_loop
from headrace_gateway.http.routes import Nothing, Routes

routes = Routes()


@routes.add(
    "GET",
    "/streams/{stream_id}/topics/{topic_id}/messages/search",
    tag="messages",
    query=SearchQuery,
    answer=FoundAnswer,
    errors=(400, 403, 404),
)
async def search_messages(call: Call[SearchQuery, Nothing]) -> FoundAnswer:
    """Search a bounded part of a partition for a text.

    Returns the offsets of messages whose payload or user headers contain the bytes of the text. Upper and lower case
    of the letters a to z are the same. One request reads at most `count` messages, and fewer if they are large: repeat
    it with `next_offset` to search on.
    """
    query = call.query
    encoded = core.encode_wait_messages(
        stream=call.stream,
        topic=call.topic,
        partition=query.partition_id,
        strategy="offset",
        value=query.offset,
        count=min(query.count, call.services.config.max_poll_count),
        maximum_wait_micros=0,
        names_gap=True,
    )
    payload = await call.ask(encoded)
    wanted = query.text.encode(errors="surrogateescape").lower()
    return await off_loop(payload, lambda: _found(payload, wanted))


def _found(payload: bytes, wanted: bytes) -> FoundAnswer:
    batch = core.decode_polled(payload, names_gap=True)
    last = batch.last_offset
    return FoundAnswer(
        partition_id=batch.partition_id,
        offsets=[
            message.offset
            for message in batch
            if wanted in message.payload.lower() or wanted in message.user_headers.lower()
        ],
        scanned=len(batch),
        next_offset=last + 1 if last is not None else None,
    )
