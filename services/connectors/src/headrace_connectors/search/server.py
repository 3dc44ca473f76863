"""Requests to a server, and its failures as the runtime understands them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import msgspec
from pydantic import Field, model_validator

from headrace_connectors.contract import ConnectorError, Settings, Unavailable
from headrace_connectors.http_client import not_reached, passes, pause_of, redirected, trusting, without_secrets
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value
from headrace_settings import Duration, Secret

_SHOWN_CHARACTERS: Final = 300


class ServerSettings(Settings):
    """Settings that the source and the sink share."""

    url: str = Field(pattern="^https?://[^/]+/?$")
    """Address, as `https://search:9200`."""
    username: str | None = None
    """User, with a password."""
    password: Secret | None = None
    """Password of the user."""
    api_key: Secret | None = None
    """API key of Elasticsearch, in place of a user."""
    ca_file: Path | None = None
    """Certificate of the authority that has signed the server's one; that of the system if not set."""
    timeout: Duration = Duration.parse("30 s")
    """Time for the answer to a request."""

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together: set both, or an api_key")
        if self.api_key is not None and self.username is not None:
            raise ValueError("an api_key replaces username and password: set one of them")
        return self


class Answer(msgspec.Struct):
    """An answer with a status below 500 that is not to be tried again."""

    status: int
    document: Any

    def part(self, name: str) -> Any:
        """Return a part of the document of an answer that refuses nothing.

        Raises:
            Unavailable: There is no such part: something else than the server has answered, such as a proxy.
        """
        if not isinstance(self.document, dict) or name not in self.document:
            raise Unavailable(
                f"the answer has no {name}, as those of the server have: {self.reason}; correct settings.url, or the "
                "proxy before it"
            )
        return self.document[name]

    @property
    def reason(self) -> str:
        """Reason of a refusal."""
        return reason_of(
            self.document.get("error", self.document) if isinstance(self.document, dict) else self.document
        )


def reason_of(error: Any) -> str:
    """Return the text of an error of the server."""
    if isinstance(error, dict):
        cause = error.get("caused_by")
        own = str(error.get("reason") or error.get("type") or error)
        return own if cause is None else f"{own}: {reason_of(cause)}"
    return str(error)[:_SHOWN_CHARACTERS]


class SearchServer:
    """A server, or a cluster behind one address.

    Args:
        settings: Address and login.
    """

    def __init__(self, settings: ServerSettings) -> None:
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
        if settings.api_key is not None:
            headers["Authorization"] = f"ApiKey {settings.api_key.reveal()}"
        login = None
        if settings.username is not None and settings.password is not None:
            login = aiohttp.BasicAuth(settings.username, settings.password.reveal())
        self._session = aiohttp.ClientSession(
            headers=headers,
            auth=login,
            connector=trusting(settings.ca_file),
            timeout=aiohttp.ClientTimeout(total=settings.timeout.seconds),
        )

    async def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Answer:
        """Send a request.

        Raises:
            Unavailable: The server is not reached, or answers 408, 425, 429 or 5xx; `Retry-After` is honoured.
            ConnectorError: It refuses the login or the right.
        """
        if self._session is None:
            raise AssertionError("a server is opened before it is asked")
        url = f"{self._url}{path}"
        headers = {"Content-Type": kind} if body is not None else {}
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                encoded = await response.read()
                status, pause = response.status, pause_of(response.headers)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise not_reached(self._url, error) from error
        if (redirect := redirected(url, status)) is not None:
            raise redirect
        answer = Answer(status, _decoded(encoded))
        if passes(status):
            raise Unavailable(f"{without_secrets(url)} answered {status}: {answer.reason}", retry_after=pause)
        if status in (401, 403):
            raise ConnectorError(
                f"{without_secrets(url)} answered {status}: {answer.reason}; correct the login or its permissions"
            )
        return answer

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()


def _decoded(encoded: bytes) -> Any:
    try:
        return json_value(encoded)
    except NOT_JSON:
        return encoded.decode(errors="replace")
