"""The sink `http`: messages in the bodies of POST requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal

import aiohttp
from pydantic import Field

from headrace_connectors.contract import (
    ConnectorError,
    InvalidRecord,
    Received,
    Settings,
    Sink,
    Unavailable,
    stable_id,
)
from headrace_connectors.http_client import not_reached, passes, pause_of, without_secrets
from headrace_connectors.sinks.json_values import encoded, key_text
from headrace_settings import Duration, Secret

_ANSWER_BYTES: Final = 200
_OF_A_BODY: Final = (400, 413, 415, 422)
"""The body is the reason: halves of it show which message, or are small enough."""


class HttpSinkSettings(Settings):
    """`settings` of the sink `http`."""

    url: str = Field(pattern="^https?://")
    """Address that requests are sent to."""
    token: Secret | None = None
    """Bearer token."""
    headers: Mapping[str, str] = Field(default_factory=dict)
    """Headers of the requests."""
    format: Literal["json", "json_lines"] = "json"
    """An array in each request, or one value per line (`application/x-ndjson`)."""
    content: Literal["payloads", "messages"] = "payloads"
    """The payloads alone, or objects that have place, `offset`, `timestamp` and `key` beside `payload`."""
    timeout: Duration = Duration.parse("30 s")
    """Time for the answer."""


class HttpSink(Sink):
    """Sends each batch in a request, again with the same `Idempotency-Key` until it is accepted."""

    settings_type: ClassVar[type[Settings]] = HttpSinkSettings

    def __init__(self, settings: HttpSinkSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Prepare connections; none is made before the first message."""
        settings = self._settings
        kind = "application/json" if settings.format == "json" else "application/x-ndjson"
        headers = {**settings.headers, "Content-Type": kind}
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token.reveal()}"
        timeout = aiohttp.ClientTimeout(total=settings.timeout.seconds)
        self._session = aiohttp.ClientSession(headers=headers, timeout=timeout)

    async def write(self, messages: Sequence[Received]) -> None:
        """Send messages.

        Raises:
            InvalidRecord: The server refuses the body (400, 413, 415, 422), or a payload has no form in JSON.
            Unavailable: The server is not reached, or answers 408, 425, 429 or 5xx; `Retry-After` is honoured.
            ConnectorError: It answers otherwise.
        """
        if self._session is None:
            raise AssertionError("a sink is opened before it writes")
        url, body = self._settings.url, self._body(messages)
        headers = {"Idempotency-Key": f"{_id_of(messages):032x}"}
        try:
            async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                text = (await answer.content.read(_ANSWER_BYTES)).decode(errors="replace")
                status, retry_after = answer.status, pause_of(answer.headers)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise not_reached(url, error) from error
        if 200 <= status < 300:
            return
        message = f"{without_secrets(url)} answered {status}: {' '.join(text.split())}"
        if status in _OF_A_BODY:
            raise InvalidRecord(message)
        if passes(status):
            raise Unavailable(message, retry_after=retry_after)
        raise ConnectorError(f"{message}; correct settings.url or the token")

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()

    def _body(self, messages: Sequence[Received]) -> bytes:
        values = encoded(messages, self._value)
        if self._settings.format == "json":
            return b"[" + b",".join(values) + b"]"
        return b"".join(value + b"\n" for value in values)

    def _value(self, message: Received) -> Any:
        if self._settings.content == "payloads":
            return message.record.payload
        place = message.place
        return {
            "stream": place.stream,
            "topic": place.topic,
            "partition": place.partition,
            "offset": message.offset,
            "timestamp": datetime.fromtimestamp(message.timestamp_micros / 1e6, UTC),
            "key": key_text(message),
            "payload": message.record.payload,
        }


def _id_of(messages: Sequence[Received]) -> int:
    return stable_id(*((*message.place, message.offset) for message in messages))
