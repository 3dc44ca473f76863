"""Requests of the push API for browsers for the rows of `commands`."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final, NamedTuple


class Message(NamedTuple):
    """A request, and another one that must succeed before it."""

    type: str
    fields: dict[str, Any]
    first: Message | None = None


def _subscribe(**fields: Any) -> Message:
    topic = {"stream": "s", "topic": "t", "partitions": [0]} | fields
    return Message("subscribe", {"subscription": 1, "topics": [topic], "consumer": {"id": 2}})


_ACK: Final = {"subscription": 1, "stream_id": 0, "topic_id": 0, "partition_id": 0, "offset": 99}
_MESSAGES: Final = [{"payload": base64.b64encode(b"m").decode()}]


def messages(*, access_token: str) -> dict[str, Sequence[Message]]:
    """Requests for each row that the push API supports, including alternative requests with the same effect."""
    return {
        "LOGIN_WITH_PERSONAL_ACCESS_TOKEN": [Message("login", {"token": access_token})],
        "WATCH_PARTITIONS": [_subscribe(), _subscribe(partitions=[])],
        "POLL_MESSAGES": [
            _subscribe(),
            _subscribe(start={"kind": "first"}),
            _subscribe(start={"kind": "timestamp", "value": 0}),
        ],
        "GET_CONSUMER_OFFSET": [_subscribe(start={"kind": "next"})],
        "STORE_CONSUMER_OFFSET": [Message("ack", _ACK, _subscribe())],
        "SEND_MESSAGES": [
            Message(
                "produce",
                {
                    "stream": "s",
                    "topic": "t",
                    "partitioning": {"kind": "partition_id", "value": 99},
                    "messages": _MESSAGES,
                },
            )
        ],
    }
