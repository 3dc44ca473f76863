"""Calls to the HTTP interface of a process with connectors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from headrace_gateway.connectors.config import ConnectorsConfig
from headrace_gateway.json_api.errors import Rejected

_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_PASSED_ON: Final = frozenset({400, 404, 409, 412, 413, 422})
_CONFLICT: Final = 409


class ConnectorsClient:
    """Sends requests with the token of this gateway, and passes refusals on.

    Args:
        config: Address and token.
    """

    def __init__(self, config: ConnectorsConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Keep connections for the duration of an ``async with`` block."""
        config = self._config
        timeout = aiohttp.ClientTimeout(total=config.timeout.seconds)
        headers = {} if config.token is None else {"Authorization": f"Bearer {config.token.reveal()}"}
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as self._session:
            yield

    async def ask(
        self,
        method: str,
        *parts: str | int,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; return the JSON of the answer.

        Args:
            method: Method.
            parts: Parts of the path.
            body: JSON-like body; None: none.
            query: Parameters.
            headers: Headers beside the token.

        Raises:
            Rejected: There is no such process, it does not answer, or it refuses the request.
        """
        if self._config.url is None or self._session is None:
            raise Rejected(404, "This server knows no process with connectors: set http.connectors.url.")
        path = "/".join(quote(str(part), safe="") for part in parts)
        # Encoded already: a key with a slash must not become two parts.
        url = URL(f"{self._config.url.rstrip('/')}/{path}", encoded=True).update_query(query or {})
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, allow_redirects=False
            ) as response:
                encoded = await response.content.read(_ANSWER_BYTES_MAX)
                status = response.status
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise Rejected(502, f"The connectors at {self._config.url} do not answer: {reason}.") from error
        if status < 300:
            return _decoded(encoded)
        raise self._refusal(status, encoded)

    def _refusal(self, status: int, encoded: bytes) -> Rejected:
        problem = _decoded(encoded)
        found = problem if isinstance(problem, dict) else {}
        detail = str(found.get("detail") or f"The connectors answered with status {status}.")
        if found.get("code") == "not_changeable":
            return Rejected(_CONFLICT, detail)
        if status in _PASSED_ON:
            return Rejected(status, detail)
        if status in (401, 403):
            # Not of the user: their own token is good.
            detail = "The connectors refuse the token of this server: correct http.connectors.token."
        return Rejected(502, detail)


def _decoded(encoded: bytes) -> Any:
    try:
        return msgspec.json.decode(encoded)
    except msgspec.MsgspecError as error:
        raise Rejected(502, f"The answer of the connectors cannot be read: {error}.") from error
