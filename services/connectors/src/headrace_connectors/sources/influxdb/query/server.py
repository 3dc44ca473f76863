"""Queries to a server of InfluxDB, and its failures as the runtime understands them."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import aiohttp

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.http_client import not_reached, passes, pause_of, redirected, trusting, without_secrets
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value
from headrace_connectors.sources.influxdb.line_protocol import FieldValue, Point
from headrace_connectors.sources.influxdb.query.settings import InfluxQuerySettings

_SHOWN_CHARACTERS: Final = 300
_NO_DATABASE: Final = "no database"
"""Reason of version 1.8, with the status 500, for a bucket that is not there."""


class TooManyPoints(Exception):
    """More points than were asked for; the rest of the answer is not read."""


class Reader(Protocol):
    """Reads points in one of the languages. Times are nanoseconds since 1970, and bounds belong to the range.

    Raises:
        Unavailable: The server is not reached, busy, or its answer breaks off.
        ConnectorError: It refuses the query.
    """

    async def first_time(self, start_ns: int, stop_ns: int) -> int | None:
        """Return the time of the first point; None: there is none."""

    async def points(self, start_ns: int, stop_ns: int, maximum: int | None) -> list[Point]:
        """Return all points, in any order.

        Raises:
            TooManyPoints: There are more than `maximum`.
        """


class Points:
    """Points that an answer brings, up to a maximum.

    Args:
        maximum: Maximum number of points; None: there is none.
    """

    def __init__(self, maximum: int | None) -> None:
        self._maximum = maximum
        self._found: dict[tuple[str, tuple[tuple[str, str], ...], int], dict[str, FieldValue]] = {}

    def fields(self, measurement: str, tags: tuple[tuple[str, str], ...], time_ns: int) -> dict[str, FieldValue]:
        """Return the fields of a point, to be filled.

        Raises:
            TooManyPoints: It is one too many.
        """
        identity = (measurement, tags, time_ns)
        if (found := self._found.get(identity)) is None:
            if self._maximum is not None and len(self._found) >= self._maximum:
                raise TooManyPoints
            found = self._found[identity] = {}
        return found

    def all(self) -> list[Point]:
        """Return the points that have fields."""
        return [
            Point(measurement, dict(tags), fields, time_ns)
            for (measurement, tags, time_ns), fields in self._found.items()
            if fields
        ]


class InfluxServer:
    """A server.

    Args:
        settings: Address and login.
    """

    def __init__(self, settings: InfluxQuerySettings) -> None:
        self._settings = settings
        self._url = settings.url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Prepare connections.

        Raises:
            ConnectorError: The file with the authority cannot be read.
        """
        # Close the connections of an attempt that has failed.
        await self.close()
        settings = self._settings
        headers = {}
        if settings.username is not None and settings.password is not None:
            login = base64.b64encode(f"{settings.username}:{settings.password.reveal()}".encode())
            headers["Authorization"] = f"Basic {login.decode()}"
        if settings.token is not None:
            headers["Authorization"] = f"Token {settings.token.reveal()}"
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=trusting(settings.ca_file),
            timeout=aiohttp.ClientTimeout(total=settings.timeout.seconds),
        )

    @asynccontextmanager
    async def answer(self, path: str, **request: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a query with POST; the value of the ``with`` block are the pieces of the answer, as they arrive.

        Args:
            path: Path of the API.
            request: Parameters of `aiohttp.ClientSession.post`.

        Raises:
            Unavailable: The server is not reached, or answers 408, 425, 429 or 5xx, or its answer breaks off.
            ConnectorError: It refuses the login or the query.
        """
        if self._session is None:
            raise AssertionError("a server is opened before it is asked")
        url = f"{self._url}{path}"
        try:
            async with self._session.post(url, allow_redirects=False, **request) as response:
                if (redirect := redirected(url, response.status)) is not None:
                    raise redirect
                if response.status != 200:
                    raise _refusal(url, response.status, response.headers, await response.read())
                yield response.content.iter_any()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise not_reached(self._url, error) from error

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()


def _refusal(url: str, status: int, headers: Mapping[str, str], body: bytes) -> ConnectorError:
    text = body.decode(errors="replace")
    with contextlib.suppress(*NOT_JSON):
        document = json_value(body)
        if isinstance(document, dict):
            # Version 1 has `error`, version 2 `message`.
            text = str(document.get("error") or document.get("message") or text)
    reason = f"{without_secrets(url)} answered {status}: {' '.join(text.split())[:_SHOWN_CHARACTERS]}"
    if passes(status) and _NO_DATABASE not in text:
        return Unavailable(reason, retry_after=pause_of(headers))
    if status in (401, 403):
        return ConnectorError(f"{reason}; correct the login or its permissions")
    return ConnectorError(f"{reason}; correct settings.database, or bucket and organization")
