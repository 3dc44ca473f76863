"""The client for asyncio."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Self, TypeVar

from headrace.aio.awaited.client import ClientCalls
from headrace.aio.bridge import bridge
from headrace.aio.opening import Opening
from headrace.aio.threads import ThreadCalls
from headrace.aio.waiting import finished
from headrace.sdk.address import Address, address_of
from headrace.sdk.calls import Call
from headrace.sdk.connecting import opened_servers, session_config
from headrace.sdk.errors import ClientClosed
from headrace.sdk.options import ClientOptions
from headrace.sdk.telemetry import hooks_of
from headrace_core import Requester, SessionConfig

Value = TypeVar("Value")


def connect(
    url: str | None = None,
    *,
    username: str | None = None,
    password: str | None = None,
    token: str | None = None,
    options: ClientOptions | None = None,
) -> Client:
    """Return a client that connects when it is entered with ``async with``, or awaited.

    Args and errors are those of `headrace.connect`.

    Examples:
        >>> async def ping():
        ...     async with connect(url) as client:
        ...         await client.ping()
        >>> asyncio.run(ping())
    """
    return Client(address_of(url, username=username, password=password, token=token), options or ClientOptions())


class Client(ClientCalls, Opening):
    """A client whose calls are awaited. It connects again when a connection breaks, and belongs to one event loop.

    Cancelling a call abandons its answer; the request may have its effect.

    Examples:
        >>> async def names():
        ...     async with connect(url) as client:
        ...         return [topic.name for topic in await client.topics("shop")]
        >>> asyncio.run(names())
        ['orders']
    """

    def __init__(self, address: Address, options: ClientOptions) -> None:
        """Describe the client; `connect` is the usual way."""
        self._address = address
        self._options = options
        self._hooks = hooks_of(options.telemetry)
        self._cleanup = ExitStack()
        self._requester: Requester | None = None
        self._config: SessionConfig | None = None
        self._is_open = False
        """True from the first connection to `close`: a client that is awaited, and then entered, opens once."""

    async def _ensure_open(self) -> Self:
        if self._is_open:
            return self
        with ExitStack() as cleanup:
            address = self._address
            if address.embedded is not None:
                # Starting a server takes a moment, and needs none of this event loop.
                starting = asyncio.ensure_future(asyncio.to_thread(opened_servers, address, cleanup))
                try:
                    address = await asyncio.shield(starting)
                except asyncio.CancelledError:
                    # Stop again what has been started.
                    await asyncio.wait([starting])
                    raise
            self._config = session_config(address, self._options, self._hooks)
            self._requester = Requester(self._config)
            cleanup.callback(self._requester.close)
            await finished(self._requester.opened())
            self._cleanup = cleanup.pop_all()
            self._is_open = True
        return self

    def __repr__(self) -> str:
        """Name the servers."""
        return f"Client({self._address.place})"

    async def call(self, call: Call[Value]) -> Value:
        """Execute a call of `headrace.sdk.calls`, for commands without a method here."""
        (requester, _) = self._opened()
        pending = call.begin(requester, self._options.request_timeout)
        await bridge().ended(pending)
        return call.end(pending)

    def _opened(self) -> tuple[Requester, SessionConfig]:
        if self._requester is None or self._config is None:
            raise ClientClosed("the client is not connected: use `async with`, or await it")
        return self._requester, self._config

    @property
    def _session(self) -> SessionConfig:
        return self._opened()[1]

    def _for_threads(self) -> ThreadCalls:
        return ThreadCalls(*self._opened(), self._options)

    async def close(self) -> None:
        """Close the connection of calls, and stop an embedded server."""
        self._is_open = False
        if self._address.embedded is None and self._hooks is None:
            self._cleanup.close()
            return
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(self._close)))

    def _close(self) -> None:
        self._cleanup.close()
        if self._hooks is not None:
            self._hooks.close()
