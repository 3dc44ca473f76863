"""The blocking client."""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypeVar

from headrace.sdk.address import Address, address_of
from headrace.sdk.blocking.client import ClientCalls
from headrace.sdk.blocking.waiting import finished
from headrace.sdk.calls import Call
from headrace.sdk.connecting import opened_servers, session_config
from headrace.sdk.errors import native
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
    """Connect to a server, log in, and return a client; use it in a ``with`` block, or close it.

    Args:
        url: Servers and credentials: ``headrace://user:password@host:8090,other:8090``; ``headrace+tls://host?ca=FILE``;
            ``headrace+ws://host:8092`` over WebSocket; or ``headrace+embedded://``, which starts a server in this
            process. None: the variables HEADRACE_SERVER, and HEADRACE_TOKEN or HEADRACE_USERNAME and HEADRACE_PASSWORD.
        username: The user; wins over the URL.
        password: The user's password.
        token: A personal access token in place of both.
        options: Times of connections and calls.

    Raises:
        InvalidArgument: The URL cannot be understood, or credentials are missing.
        ConnectionFailed: No server answers.
        LoginRefused: The credentials are not accepted.

    Examples:
        >>> with connect(url) as client:
        ...     client.ping()
    """
    return Client(address_of(url, username=username, password=password, token=token), options or ClientOptions())


class Client(ClientCalls):
    """A client whose calls wait. It may be used by many threads, and connects again when a connection breaks.

    It belongs to the process that made it: after a fork, the child makes a client of its own.

    Examples:
        >>> client.create_topic("shop", "returns", partitions=3).partitions_count
        3
        >>> [topic.name for topic in client.topics("shop")]
        ['orders', 'returns']
        >>> client.topic("shop", "missing")
        Traceback (most recent call last):
        headrace.sdk.errors.NotFound: there is no topic 'missing' in stream 'shop'
    """

    def __init__(self, address: Address, options: ClientOptions) -> None:
        """Connect; `connect` is the usual way."""
        self._options = options
        self._process = os.getpid()
        self._hooks = hooks_of(options.telemetry)
        with ExitStack() as cleanup:
            address = opened_servers(address, cleanup)
            self._place = address.place
            self._config = session_config(address, options, self._hooks)
            self._requester = Requester(self._config)
            cleanup.callback(self._requester.close)
            finished(self._requester.opened())
            self._cleanup = cleanup.pop_all()

    def call(self, call: Call[Value]) -> Value:
        """Execute a call of `headrace.sdk.calls`, for commands without a method here."""
        pending = call.begin(self._requester, self._options.request_timeout)
        native(pending.wait)
        return call.end(pending)

    @property
    def _session(self) -> SessionConfig:
        return self._config

    def close(self) -> None:
        """Close the connection of calls, and stop an embedded server. Producers and consumers close themselves."""
        # A child of a fork has neither the connection nor the server: they are those of its parent.
        if os.getpid() == self._process:
            self._cleanup.close()
            if self._hooks is not None:
                self._hooks.close()

    def __repr__(self) -> str:
        """Name the servers."""
        return f"Client({self._place})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
