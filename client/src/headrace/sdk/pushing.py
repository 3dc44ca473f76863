"""Messages on their way to the native producer of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from headrace.sdk.arrow_tables import ArrowTable, Codec, OutgoingTable
from headrace.sdk.calls import Name, check_name
from headrace.sdk.errors import InvalidArgument, native, translated
from headrace.sdk.options import KEY_HEADER, ProducerOptions, key_bytes
from headrace.sdk.results import Delivery
from headrace.sdk.telemetry import Hooks
from headrace_core import Deliveries as NativeDeliveries
from headrace_core import Producer as NativeProducer
from headrace_core import SessionConfig, SessionError, TableRows

HeaderValue = str | bytes | bool | int | float
Headers = Mapping[str, HeaderValue]
"""User headers: names and values of 1 to 255 bytes."""


KEY_WITHOUT_EFFECT: Final = "key: the partition is given, and the key is not stored, so that it has no effect"


class ProducerCounters(NamedTuple):
    """Counters of a producer."""

    buffered_bytes: int
    """Size of the messages that are not delivered yet."""
    batches_delivered: int
    batches_failed: int
    batches_sent: int
    """Batches that were sent, repetitions included."""


def native_producer(
    config: SessionConfig, stream: Name, topic: Name, options: ProducerOptions, hooks: Hooks | None = None
) -> NativeProducer:
    """Return the native producer of a topic.

    Raises:
        InvalidArgument: A name or an option is invalid.
    """
    check_name("stream", stream)
    check_name("topic", topic)
    try:
        return NativeProducer(
            config,
            stream,
            topic,
            batch_messages=options.batch_messages,
            batch_bytes=options.batch_bytes,
            linger=options.linger,
            window=options.in_flight,
            buffer_bytes=options.buffer_bytes,
            delivery_timeout=options.delivery_timeout,
            repeat_uncertain=options.resend_uncertain,
            reports=None if hooks is None else hooks.reports,
            number=0 if hooks is None else hooks.register(stream, topic),
        )
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(str(error)) from None


def pushed(
    producer: NativeProducer,
    payload: bytes,
    partition: int | None,
    key: bytes | str | None,
    headers: Headers | None,
    message_id: int,
    stores_key: bool,
) -> Delivery | None:
    """Hand a message to the native producer; None if there is no room for it."""
    if key is not None:
        if partition is not None and not stores_key:
            raise InvalidArgument(KEY_WITHOUT_EFFECT)
        key = key_bytes(key)
    try:
        return producer.push(
            payload, partition, key, header_dict(headers) if headers else None, message_id or None, stores_key
        )
    except SessionError as error:
        raise translated(error) from None
    except (OverflowError, TypeError, ValueError) as error:
        raise refused(error, [payload], partition, message_id) from None


def pushed_many(
    producer: NativeProducer,
    payloads: list[bytes],
    start: int,
    *,
    partition: int | None,
    key: bytes | str | None,
    headers: Headers | None,
    stores_key: bool,
) -> tuple[int, NativeDeliveries]:
    """Hand messages from `start` on to the native producer; returns the number that it had room for."""
    try:
        return producer.push_many(
            payloads,
            start,
            partition=partition,
            key=key_bytes(key),
            headers=header_dict(headers),
            stores_key=stores_key,
        )
    except SessionError as error:
        raise translated(error) from None
    except (OverflowError, TypeError, ValueError) as error:
        raise refused(error, payloads, partition, 0) from None


def outgoing_table(
    table: ArrowTable,
    *,
    codec: Codec | None,
    columns: dict[str, str | None],
    added: Headers | None,
    stores_key: bool,
) -> OutgoingTable:
    """Find the columns of a table, and check their types. Arguments and errors as of `Producer.write_arrow`."""
    return OutgoingTable(table, codec=codec, columns=columns, added=header_dict(added), stores_key=stores_key)


def pushed_rows(producer: NativeProducer, rows: TableRows, start: int) -> tuple[int, NativeDeliveries]:
    """Hand rows from `start` on to the native producer; returns the number that it had room for."""
    try:
        return producer.push_rows(rows, start)
    except SessionError as error:
        raise translated(error) from None


def header_dict(headers: Headers | None) -> dict[str, HeaderValue] | None:
    """Return headers for the native module.

    Raises:
        InvalidArgument: One of them is that of the key.
    """
    if not headers:
        return None
    if KEY_HEADER in headers:
        raise InvalidArgument(f"headers[{KEY_HEADER!r}]: this header holds the key of a message; give it as `key`")
    return dict(headers)


def refused(error: Exception, payloads: Sequence[object], partition: object, message_id: object) -> InvalidArgument:
    """Say which argument the native module could not convert."""
    if isinstance(error, InvalidArgument):
        return error
    for payload in payloads:
        if not isinstance(payload, bytes):
            return InvalidArgument(f"payload: a {type(payload).__name__} is not bytes")
    if partition is not None and not (isinstance(partition, int) and 0 <= partition < 2**32):
        return InvalidArgument(f"partition: {partition!r} is no id of a partition; they are 0 to 4294967295")
    if not (isinstance(message_id, int) and 0 <= message_id < 2**128):
        return InvalidArgument(f"message_id: {message_id!r} is not a number of 128 bits without a sign")
    return InvalidArgument(str(error))


def direct_only(stream: Name, topic: Name) -> NoReturn:
    """Refuse a call that names a topic."""
    raise InvalidArgument(
        f"send_to: this producer sends to topic {topic!r} in stream {stream!r} alone; use send, or "
        "client.direct_producer() for other topics"
    )


def fail(producer: NativeProducer) -> None:
    """Raise the first failure of a message whose result was not asked for."""
    native(producer.take_failure)
