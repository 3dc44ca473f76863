"""The blocking client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from headrace.sdk.address import Address, address_of
from headrace.sdk.admin import Admin
from headrace.sdk.calls import Call, Name
from headrace.sdk.connecting import opened_servers, session_config
from headrace.sdk.consumer import Consumer
from headrace.sdk.direct import DirectProducer
from headrace.sdk.errors import native
from headrace.sdk.options import (
    ClientOptions,
    ConsumerArguments,
    ConsumerOptions,
    DirectProducerArguments,
    PartitionCallback,
    ProducerArguments,
    ProducerOptions,
    checked_direct_options,
    checked_options,
)
from headrace.sdk.producer import ClientProducer, Producer
from headrace.sdk.results import finished
from headrace.sdk.starts import FIRST, StartLike, start_of
from headrace.sdk.telemetry import hooks_of
from headrace_core import Requester

if TYPE_CHECKING:
    from headrace.tables.misfits import OnError
    from headrace.tables.scan import Scan

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


class Client(Admin):
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

    def producer(self, stream: Name, topic: Name, **options: Unpack[ProducerArguments]) -> Producer:
        """Return a producer for a topic.

        Args:
            stream: The stream.
            topic: The topic.
            **options: Fields of `ProducerOptions`.

        Raises:
            NotFound: The stream or the topic does not exist.
            InvalidArgument: An option is unknown or invalid.

        Examples:
            >>> with client.producer("shop", "orders", linger=0.1, batch_bytes=256 * 1024) as producer:
            ...     producer.partitions_count
            2
        """
        timeout = self._options.request_timeout or None
        return ClientProducer(
            self._config,
            stream,
            topic,
            checked_options(ProducerOptions, options),
            hooks=self._hooks,
            open_timeout=timeout,
        )

    def direct_producer(self, **options: Unpack[DirectProducerArguments]) -> DirectProducer:
        """Return a producer without a topic, whose `send_to` names one and waits until the messages are stored.

        Args:
            **options: Fields of `DirectProducerOptions`.

        Raises:
            InvalidArgument: An option is unknown or invalid, or means sending in the background.

        Examples:
            >>> with client.direct_producer() as producer:
            ...     producer.send_to("shop", "orders", b"one book", partition=1)
            [(Delivered(partition_id=1, offset=0), 1)]
        """
        timeout = self._options.request_timeout or None
        return DirectProducer(self._config, checked_direct_options(options), hooks=self._hooks, open_timeout=timeout)

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
        """Return a consumer of a topic.

        Args:
            stream: The stream.
            topic: The topic.
            group: A consumer group, whose members share the partitions; it is created if there is none.
            name: Without a group: the name under which offsets are stored. None: none are.
            partitions: Without a group: the partitions to read; None: all.
            start: Where to begin in partitions without a stored offset.
            on_assigned: Called with partitions that this consumer reads from now on, before their first message.
            on_revoked: Called with partitions that it gives up, when their last message was processed.
            on_lost: Called with partitions that were taken away, because the connection broke.
            **options: Fields of `ConsumerOptions`.

        Raises:
            InvalidArgument: An option is unknown or invalid, or two exclude each other.

        Examples:
            >>> with client.producer("shop", "orders") as producer:
            ...     delivery = producer.send(b"one book", key="customer-7")
            >>> with client.consumer("shop", "orders", group="billing") as consumer:
            ...     for message in consumer:
            ...         print(message.payload, message.key)
            ...         break
            b'one book' b'customer-7'
        """
        return Consumer(
            self._config,
            stream,
            topic,
            group=group,
            name=name,
            partitions=partitions,
            start=start_of(start),
            callbacks={"assigned": on_assigned, "revoked": on_revoked, "lost": on_lost},
            options=checked_options(ConsumerOptions, options),
            hooks=self._hooks,
            open_timeout=self._options.request_timeout or None,
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
        """Return a topic as a table: for Arrow (`table`, `reader`), Polars (`lazy`) or DuckDB (`relation`).

        Nothing is read until it is asked for. The partitions, times and offsets given here are looked up in the
        server's indexes, so that nothing else is read.

        Args:
            stream: The stream.
            topic: The topic.
            columns: Columns of the messages: `headrace.tables.COLUMNS` lists them.
            partitions: Ids of partitions; None: all.
            since: Messages that were appended at this time or later.
            until: Messages before the first one that was appended at this time or later.
            offsets: In each partition, offsets from the first up to, but without, the second.
            where: A filter of the rows: an expression of `pyarrow.compute`.
            decode: Form of the payloads, whose fields become columns: a `pyarrow.Schema` of JSON objects, a msgspec
                struct or a pydantic model.
            on_error: What a payload that does not fit `decode` does: `"raise"` ends the read with an `InvalidArgument`
                that names its offset, `"skip"` leaves the row out, and `"null"` makes the columns of the payload null.
                `Scan.misfits` has their number, and the first of them.

        Raises:
            InvalidArgument: A column or a form is unknown.
        """
        from headrace.tables.arrow import DEFAULT_COLUMNS  # noqa: PLC0415 - Arrow is imported where it is asked for
        from headrace.tables.scan import Scan  # noqa: PLC0415

        scan = Scan(
            client=self,
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
