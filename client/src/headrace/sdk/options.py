"""Settings of clients, producers and consumers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeVar

from headrace.sdk.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Settings of a client; times in seconds."""

    connect_timeout: float = 10.0
    """Time for connecting, and for logging in."""
    request_timeout: float = 30.0
    """Time for a call, connecting again included. 0: as long as it takes."""
    response_timeout: float = 30.0
    """Time in which the server answers; after it the connection counts as broken and is made again."""
    keepalive: float = 10.0
    """Idle time after which a ping shows whether the connection lives."""
    connect_attempts: int = 1
    """Number of rounds over all addresses after which the first connection fails. Later ones are tried for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Settings of a producer; times in seconds, sizes in bytes."""

    linger: float = 0.005
    """Time that a batch waits for more messages."""
    batch_messages: int = 10_000
    """Maximum number of messages in a batch."""
    batch_bytes: int = 1024 * 1024
    """Maximum size of a batch; a single message may be larger."""
    in_flight: int = 1
    """Maximum number of unanswered batches for each partition.

    More than 1 helps on slow networks. Order is kept in any case: a batch that was overtaken is not sent again.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Settings of a consumer; times in seconds, sizes in bytes."""

    commit: Literal["auto", "manual"] = "auto"
    """`auto`: processed offsets are stored every `commit_interval`, and at the end; `manual`: by `commit` alone."""
    commit_interval: float = 1.0
    batch_messages: int = 10_000
    """Maximum number of messages in a batch."""
    prefetch_bytes: int = 16 * 1024 * 1024
    """Size of the messages that are read ahead."""
    heartbeat: float = 1.0
    """Interval at which a member of a group asks for its partitions."""


PartitionCallback = Callable[[Sequence[int]], object]
"""Called with ids of partitions."""

KEY_BYTES_MAX: Final = 255


def key_bytes(key: bytes | str | None) -> bytes | None:
    """Return a key as bytes; a text in UTF-8.

    Raises:
        InvalidArgument: It is empty or longer than 255 bytes.
    """
    if key is None:
        return None
    encoded = key.encode() if isinstance(key, str) else key
    if not 1 <= len(encoded) <= KEY_BYTES_MAX:
        raise InvalidArgument(f"key: it has {len(encoded)} bytes, 1 to {KEY_BYTES_MAX} are allowed")
    return encoded


Options = TypeVar("Options")


def checked_options(kind: Callable[..., Options], options: dict[str, Any]) -> Options:
    """Return options from their fields.

    Raises:
        InvalidArgument: There is no such option.
    """
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type] # a dataclass
    for name in options:
        if name not in known:
            raise InvalidArgument(f"{name}: there is no such option; there are {', '.join(known)}")
    return kind(**options)
