"""The calls of a client of an event loop for other threads, which wait for them."""

from __future__ import annotations

from typing import TypeVar

from headrace.sdk.blocking.client import ClientCalls
from headrace.sdk.calls import Call
from headrace.sdk.errors import native
from headrace.sdk.options import ClientOptions
from headrace_core import Requester, SessionConfig

Value = TypeVar("Value")


class ThreadCalls(ClientCalls):
    """Calls over the connection of a client of asyncio, for libraries that read on threads of their own."""

    _hooks = None

    def __init__(self, requester: Requester, config: SessionConfig, options: ClientOptions) -> None:
        self._requester = requester
        self._config = config
        self._options = options

    @property
    def _session(self) -> SessionConfig:
        return self._config

    def call(self, call: Call[Value]) -> Value:
        """Execute a call, and wait for it."""
        pending = call.begin(self._requester, self._options.request_timeout)
        native(pending.wait)
        return call.end(pending)
