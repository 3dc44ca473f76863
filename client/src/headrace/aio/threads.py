"""The calls of a client of an event loop for other threads, which wait for them."""

from __future__ import annotations

from typing import TypeVar, Unpack

from headrace.sdk.blocking.admin import Admin
from headrace.sdk.calls import Call, Name
from headrace.sdk.consumer import Consumer
from headrace.sdk.errors import native
from headrace.sdk.options import ConsumerArguments, ConsumerOptions, checked_options
from headrace.sdk.starts import StartLike, start_of
from headrace_core import Requester, SessionConfig

Value = TypeVar("Value")


class ThreadCalls(Admin):
    """Calls over the connection of a client of asyncio, for libraries that read on threads of their own."""

    def __init__(self, requester: Requester, config: SessionConfig, request_timeout: float) -> None:
        self._requester = requester
        self._config = config
        self._request_timeout = request_timeout

    def call(self, call: Call[Value]) -> Value:
        """Execute a call, and wait for it."""
        pending = call.begin(self._requester, self._request_timeout)
        native(pending.wait)
        return call.end(pending)

    def consumer(
        self,
        stream: Name,
        topic: Name,
        *,
        partitions: list[int],
        start: StartLike,
        **options: Unpack[ConsumerArguments],
    ) -> Consumer:
        """Return a consumer of partitions, which stores nothing."""
        return Consumer(
            self._config,
            stream,
            topic,
            group=None,
            name=None,
            partitions=partitions,
            start=start_of(start),
            callbacks={},
            options=checked_options(ConsumerOptions, options),
        )
