"""Making producers, consumers and scans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from headrace.sdk.blocking.admin import Admin
from headrace.sdk.calls import Name
from headrace.sdk.consumer import Consumer
from headrace.sdk.direct_producer import DirectProducer
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
from headrace.sdk.starts import FIRST, StartLike, start_of
from headrace.sdk.telemetry import Hooks
from headrace_core import SessionConfig

if TYPE_CHECKING:
    from headrace.tables.misfits import OnError
    from headrace.tables.scan import Scan


class ClientCalls(Admin):
    """A client, but for its connection."""

    _options: ClientOptions
    _hooks: Hooks | None

    @property
    @abstractmethod
    def _session(self) -> SessionConfig:
        """Configuration of the connections of producers and consumers."""

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
            self._session,
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
        return DirectProducer(self._session, checked_direct_options(options), hooks=self._hooks, open_timeout=timeout)

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
            self._session,
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

        # A client that is not connected says so here.
        _ = self._session
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
