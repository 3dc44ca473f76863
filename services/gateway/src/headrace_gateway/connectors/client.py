"""Calls to the HTTP interface of a process with connectors, or of several that share them."""

from __future__ import annotations

import asyncio
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
_NOT_FOUND: Final = 404
_STANDBY: Final = "standby"
"""State of a connector in the processes that do not run it."""
_SEARCH_SECONDS: Final = 5.0
"""Time for a process to answer which connectors it runs; one that is suspended does not hold up the others longer."""


class ConnectorsClient:
    """Sends requests with the token of this gateway, and passes refusals on.

    Of several processes that share connectors, the one that runs a connector is asked about it. While none does, or
    some do not answer, another one is: it knows the connector as well.

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
        headers = {} if config.token is None else {"Authorization": f"Bearer {config.token.reveal()}"}
        async with aiohttp.ClientSession(headers=headers) as self._session:
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
        if not self._config.addresses or self._session is None:
            raise Rejected(404, "This server knows no process with connectors: set http.connectors.url.")
        if len(self._config.addresses) == 1:
            address = self._config.addresses[0]
        elif len(parts) == 1:
            return await self._list(*parts)
        else:
            address, document = await self._holder(*parts[:2])
            if method == "GET" and len(parts) == 2 and not isinstance(document, Rejected):
                return document
        return await self._asked(address, method, *parts, body=body, query=query, headers=headers)

    async def _list(self, *parts: str | int) -> list[Any]:
        """Return each connector once, as the process that runs it describes it.

        Raises:
            Rejected: No process has answered.
        """
        answers = await self._everywhere(*parts)
        merged: dict[Any, Any] = {}
        for document in (one for answer in answers.values() if not isinstance(answer, Rejected) for one in answer):
            present = merged.get(document["key"])
            if present is None or (_is_standby(present) and not _is_standby(document)):
                merged[document["key"]] = document
        if not merged:
            for answer in answers.values():
                if isinstance(answer, Rejected):
                    raise answer
        return list(merged.values())

    async def _holder(self, *parts: str | int) -> tuple[str, Any]:
        """Return the address of the process that runs a connector, or else of one that knows it, and its document.

        A connector that is not known yet is created at a process that says so.

        Raises:
            Rejected: No process has answered with more than a refusal.
        """
        answers = await self._everywhere(*parts)
        address, answer = min(answers.items(), key=lambda item: _rank(item[1]))
        if isinstance(answer, Rejected) and answer.http_status != _NOT_FOUND:
            raise answer
        return address, answer

    async def _everywhere(self, *parts: str | int) -> dict[str, Any]:
        """Ask all processes the same; return the answers, or the refusals, by address."""

        async def ask(address: str) -> Any:
            try:
                return await self._asked(address, "GET", *parts, seconds=_SEARCH_SECONDS)
            except Rejected as refusal:
                return refusal

        addresses = self._config.addresses
        return dict(zip(addresses, await asyncio.gather(*map(ask, addresses)), strict=True))

    async def _asked(
        self,
        address: str,
        method: str,
        *parts: str | int,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Any:
        if self._session is None:
            raise AssertionError("requests are sent while there is a session")
        path = "/".join(quote(str(part), safe="") for part in parts)
        # Encoded already: a key with a slash must not become two parts.
        url = URL(f"{address}/{path}", encoded=True).update_query(query or {})
        data = None if body is None else msgspec.json.encode(body)
        timeout = self._config.timeout.seconds
        limit = aiohttp.ClientTimeout(total=timeout if seconds is None else min(seconds, timeout))
        try:
            async with self._session.request(
                method, url, data=data, headers=headers, allow_redirects=False, timeout=limit
            ) as response:
                encoded = await _content(response)
                status = response.status
        except (TimeoutError, aiohttp.ClientError) as error:
            reason = str(error) or type(error).__name__
            raise Rejected(502, f"The connectors at {address} do not answer: {reason}.") from error
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


async def _content(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    # A single read returns only what has arrived.
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > _ANSWER_BYTES_MAX:
            raise Rejected(
                502,
                f"The connectors at {response.url.origin()} answered with more than {_ANSWER_BYTES_MAX} bytes: "
                "ask for less, if the request has a limit.",
            )
    return bytes(content)


def _decoded(encoded: bytes) -> Any:
    try:
        return msgspec.json.decode(encoded)
    except msgspec.MsgspecError as error:
        raise Rejected(502, f"The answer of the connectors cannot be read: {error}.") from error


def _is_standby(document: Any) -> bool:
    return isinstance(document, dict) and document.get("state") == _STANDBY


def _rank(answer: Any) -> int:
    if isinstance(answer, Rejected):
        return 2 if answer.http_status == _NOT_FOUND else 3
    return 1 if _is_standby(answer) else 0
