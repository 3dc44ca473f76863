"""Settings of clients, producers and consumers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar

from headrace.sdk.errors import InvalidArgument

if TYPE_CHECKING:
    from headrace.sdk.telemetry import Telemetry

SECONDS_MAX: Final = 1_000_000_000
_HEARTBEAT_SECONDS_MAX: Final = 10
_COUNT_MAX: Final = 2**32 - 1
_SIZE_MAX: Final = 2**62


def _check_seconds(options: object, *names: str, may_be_zero: bool = False, most: float = SECONDS_MAX) -> None:
    for name in names:
        value = getattr(options, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or math.isnan(value) or value < 0 or value > most or (value == 0 and not may_be_zero):
            least = "0" if may_be_zero else "more than 0"
            raise InvalidArgument(f"{name}: {value!r} is no time; it is {least} to {most:,} seconds")


def _check_counts(options: object, *names: str, most: int = _COUNT_MAX) -> None:
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise InvalidArgument(f"{name}: {value!r} is not allowed; it is a whole number of at least 1")


def _check_flags(options: object, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(options, name), bool):
            raise InvalidArgument(f"{name}: {getattr(options, name)!r} is neither True nor False")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Settings of a client; times in seconds.

    Examples:
        >>> import headrace
        >>> with headrace.connect(url, options=headrace.ClientOptions(request_timeout=5)) as client:
        ...     client.ping()
    """

    connect_timeout: float = 10.0
    """Time for connecting, and for logging in."""
    request_timeout: float = 30.0
    """Time for a call, connecting again included. 0: as long as it takes."""
    response_timeout: float = 30.0
    """Time in which the server answers, or more of a long answer arrives; after it the connection counts as broken and
    is made again."""
    keepalive: float = 10.0
    """Idle time after which a ping shows whether the connection lives."""
    connect_attempts: int = 1
    """Number of rounds over all addresses after which the first connection fails. Later ones are tried for ever."""
    telemetry: Telemetry | None = None
    """Hooks for metrics and traces."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InvalidArgument: One is not allowed.
        """
        _check_seconds(self, "connect_timeout", "response_timeout", "keepalive")
        _check_seconds(self, "request_timeout", may_be_zero=True)
        _check_counts(self, "connect_attempts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Settings of a producer; times in seconds, sizes in bytes. They are arguments of `Client.producer`.

    Examples:
        >>> ProducerOptions(linger=-1)
        Traceback (most recent call last):
        headrace.sdk.errors.InvalidArgument: linger: -1 is no time; it is 0 to 1,000,000,000 seconds
    """

    linger: float = 0.005
    """Time that a batch waits for more messages."""
    batch_messages: int = 10_000
    """Maximum number of messages in a batch."""
    batch_bytes: int = 1024 * 1024
    """Maximum size of a batch; a single message may be larger."""
    in_flight: int = 1
    """Maximum number of unanswered batches for each partition.

    More than 1 helps on slow networks. Order is kept in any case: a batch that was overtaken is not sent again.
    Only a message whose outcome is unknown may turn up later than those that were sent after it.
    """
    buffer_bytes: int = 64 * 1024 * 1024
    """Maximum size of all messages that are not delivered; then `send` waits."""
    delivery_timeout: float = 120.0
    """Time after which a message that could not be sent is given up."""
    resend_uncertain: bool = False
    """Send messages again that may be stored already, because the connection broke before the answer.

    They may be stored twice then. Without it they fail with `OutcomeUnknown`.
    """
    store_key: bool = True
    """Store the key with the message, in the header `headrace.key`."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InvalidArgument: One is not allowed.
        """
        _check_seconds(self, "linger", may_be_zero=True)
        _check_seconds(self, "delivery_timeout")
        _check_counts(self, "batch_messages", "in_flight")
        _check_counts(self, "batch_bytes", "buffer_bytes", most=_SIZE_MAX)
        _check_flags(self, "resend_uncertain", "store_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectProducerOptions:
    """Settings of a producer without a topic; time in seconds. They are arguments of `Client.direct_producer`.

    Examples:
        >>> DirectProducerOptions(batch_bytes=0)
        Traceback (most recent call last):
        headrace.sdk.errors.InvalidArgument: batch_bytes: 0 is not allowed; it is a whole number of at least 1
    """

    batch_bytes: int = 1024 * 1024
    """Maximum size of the messages of a call that are sent at a time; a single message may be larger."""
    delivery_timeout: float = 30.0
    """Time for the answer to them, connecting again included."""
    max_concurrent_destinations: int = 16
    """Maximum number of topics that `send_groups` sends to at a time."""
    store_key: bool = True
    """Store the key with the message, in the header `headrace.key`."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InvalidArgument: One is not allowed.
        """
        _check_seconds(self, "delivery_timeout")
        _check_counts(self, "max_concurrent_destinations")
        _check_counts(self, "batch_bytes", most=_SIZE_MAX)
        _check_flags(self, "store_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Settings of a consumer; times in seconds, sizes in bytes. They are arguments of `Client.consumer`.

    Examples:
        >>> ConsumerOptions(commit="manual").prefetch_bytes
        16777216
    """

    commit: Literal["auto", "manual"] = "auto"
    """`auto`: processed offsets are stored every `commit_interval`, and at the end; `manual`: by `commit` alone."""
    commit_interval: float = 1.0
    batch_messages: int = 10_000
    """Maximum number of messages in a batch."""
    prefetch_bytes: int = 16 * 1024 * 1024
    """Size of the messages that are read ahead."""
    heartbeat: float = 1.0
    """Interval at which a member of a group asks for its partitions, at most 10 s. A server takes the partitions of a
    member that it has not heard of for `consumer_group.member_timeout`.
    """
    dead_letter_topic: str | None = None
    """Topic for dead letters, in the same stream; None: the name of the topic with `-dead` at its end."""
    create_dead_letter_topic: bool = True
    """Create this topic, with one partition, when the first dead letter needs it."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InvalidArgument: One is not allowed.
        """
        if self.commit not in {"auto", "manual"}:
            raise InvalidArgument(f"commit: {self.commit!r} is none of 'auto' and 'manual'")
        _check_seconds(self, "commit_interval", may_be_zero=True)
        _check_seconds(self, "heartbeat", most=_HEARTBEAT_SECONDS_MAX)
        _check_counts(self, "batch_messages")
        _check_counts(self, "prefetch_bytes", most=_SIZE_MAX)
        _check_flags(self, "create_dead_letter_topic")
        if self.dead_letter_topic == "":
            raise InvalidArgument("dead_letter_topic: it is empty; None means the topic's name with `-dead` at its end")


class ProducerArguments(TypedDict, total=False):
    """Options of a producer as arguments by name: fields of `ProducerOptions`."""

    linger: float
    batch_messages: int
    batch_bytes: int
    in_flight: int
    buffer_bytes: int
    delivery_timeout: float
    resend_uncertain: bool
    store_key: bool


class DirectProducerArguments(TypedDict, total=False):
    """Options of a producer without a topic as arguments by name: fields of `DirectProducerOptions`."""

    batch_bytes: int
    delivery_timeout: float
    max_concurrent_destinations: int
    store_key: bool


class ConsumerArguments(TypedDict, total=False):
    """Options of a consumer as arguments by name: fields of `ConsumerOptions`."""

    commit: Literal["auto", "manual"]
    commit_interval: float
    batch_messages: int
    prefetch_bytes: int
    heartbeat: float
    dead_letter_topic: str | None
    create_dead_letter_topic: bool


PartitionCallback = Callable[[Sequence[int]], object]
"""Called with ids of partitions."""

KEY_HEADER: Final = "headrace.key"
"""User header that holds the key of a message."""
KEY_BYTES_MAX: Final = 255


def key_bytes(key: bytes | str | None) -> bytes | None:
    """Return a key as bytes; a text in UTF-8.

    Raises:
        InvalidArgument: It is empty or longer than 255 bytes, or neither bytes nor text.
    """
    if key is None:
        return None
    if not isinstance(key, str | bytes):
        raise InvalidArgument(f"key: a {type(key).__name__} is neither bytes nor text")
    try:
        encoded = key.encode() if isinstance(key, str) else key
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"key: the text has no form in UTF-8: {error.reason}") from None
    if not 1 <= len(encoded) <= KEY_BYTES_MAX:
        raise InvalidArgument(f"key: it has {len(encoded)} bytes, 1 to {KEY_BYTES_MAX} are allowed")
    return encoded


Options = TypeVar("Options")


def checked_options(kind: Callable[..., Options], options: Mapping[str, Any]) -> Options:
    """Return options from their fields.

    Raises:
        InvalidArgument: There is no such option.
    """
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type] # a dataclass
    for name in options:
        if name not in known:
            raise InvalidArgument(f"{name}: there is no such option; there are {', '.join(known)}")
    return kind(**options)


_BACKGROUND: Final = frozenset({"linger", "batch_messages", "in_flight", "buffer_bytes", "resend_uncertain"})


def checked_direct_options(options: Mapping[str, Any]) -> DirectProducerOptions:
    """Return the options of a producer without a topic from their fields.

    Raises:
        InvalidArgument: There is no such option, or it is one of producers that send in the background.
    """
    for name in options:
        if name in _BACKGROUND:
            # In the background, a call returns when messages are in a buffer. A connector
            # goes on in its source after the call, so it has to mean that the server has them.
            raise InvalidArgument(
                f"{name}: a producer without a topic sends at once, once, and waits for the server's answer; "
                "sending in the background needs a topic: client.producer(stream, topic)"
            )
    return checked_options(DirectProducerOptions, options)
