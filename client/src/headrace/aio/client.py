"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from headrace.aio.admin import Admin
from headrace.aio.bridge import bridge
from headrace.aio.consumer import Consumer, PartitionCallback
from headrace.aio.direct import DirectProducer
from headrace.aio.producer import Producer
from headrace.aio.threads import ThreadCalls
from headrace.sdk.address import Address, address_of
from headrace.sdk.calls import Call, Name
from headrace.sdk.connecting import opened_servers, session_config
from headrace.sdk.errors import ClientClosed
from headrace.sdk.options import (
    ClientOptions,
    ConsumerArguments,
    ConsumerOptions,
    DirectProducerArguments,
    ProducerArguments,
    ProducerOptions,
    checked_direct_options,
    checked_options,
)
from headrace.sdk.starts import FIRST, StartLike, start_of
from headrace.sdk.telemetry import hooks_of
from headrace_core import Requester, SessionConfig

if TYPE_CHECKING:
    from headrace.aio.scan import Scan
    from headrace.tables.misfits import OnError

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


class Client(Admin):
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

    async def _open(self) -> Self:
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
            await bridge().finished(self._requester.opened())
            self._cleanup = cleanup.pop_all()
            self._is_open = True
        return self

    def __repr__(self) -> str:
        """Name the servers."""
        return f"Client({self._address.place})"

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

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

    def producer(self, stream: Name, topic: Name, **options: Unpack[ProducerArguments]) -> Producer:
        """Return a producer for a topic; use it with ``async with``. Arguments as of `headrace.Client.producer`."""
        return Producer(self._opened()[1], stream, topic, checked_options(ProducerOptions, options), self._hooks)

    def direct_producer(self, **options: Unpack[DirectProducerArguments]) -> DirectProducer:
        """Return a producer without a topic; use it with ``async with``. As `headrace.Client.direct_producer`."""
        return DirectProducer(self._opened()[1], checked_direct_options(options), self._hooks)

    def consumer(
        self,
        stream: Name,
        topic: Name,
        *,
        group: Name | None = None,
        name: Name | None = None,
        partitions: list[int] | None = None,
        start: StartLike = FIRST,
        on_assigned: PartitionCallback | None = None,
        on_revoked: PartitionCallback | None = None,
        on_lost: PartitionCallback | None = None,
        **options: Unpack[ConsumerArguments],
    ) -> Consumer:
        """Return a consumer of a topic. Arguments as of `headrace.Client.consumer`; callbacks may be coroutines."""
        return Consumer(
            self._opened()[1],
            stream,
            topic,
            group=group,
            name=name,
            partitions=partitions,
            start=start_of(start),
            callbacks={"assigned": on_assigned, "revoked": on_revoked, "lost": on_lost},
            options=checked_options(ConsumerOptions, options),
            hooks=self._hooks,
        )

    def scan(
        self,
        stream: Name,
        topic: Name,
        *,
        columns: Sequence[str] | None = None,
        partitions: Sequence[int] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        offsets: tuple[int, int] | None = None,
        where: Any = None,
        decode: Any = None,
        on_error: OnError = "raise",
    ) -> Scan:
        """Return a topic as a table. Arguments and errors as of `headrace.Client.scan`.

        Its `table` is awaited, and its `batches` are iterated over with ``async for``.
        """
        from headrace.aio.scan import Scan  # noqa: PLC0415 - Arrow is imported where it is asked for
        from headrace.tables.arrow import DEFAULT_COLUMNS  # noqa: PLC0415

        requester, config = self._opened()
        scan = Scan(
            client=self,
            threads=ThreadCalls(requester, config, self._options.request_timeout),
            stream=stream,
            topic=topic,
            columns=tuple(columns) if columns is not None else DEFAULT_COLUMNS,
            partitions=partitions,
            since=since,
            until=until,
            offsets=offsets,
            where=where,
            decode=decode,
            on_error=on_error,
        )
        _ = scan.schema
        return scan

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

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
