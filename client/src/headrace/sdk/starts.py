"""Places in a partition at which reading begins."""

from __future__ import annotations

from calendar import timegm
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from headrace.sdk.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Start:
    """A place in a partition. Made by `FIRST`, `END`, `at_offset` and `at_time`.

    Examples:
        >>> with client.consumer("shop", "orders", start=END) as consumer:
        ...     consumer.poll(timeout=0)
    """

    kind: Literal["first", "end", "offset", "timestamp"]
    value: int = 0


FIRST: Final = Start("first")
"""First message that is kept."""
END: Final = Start("end")
"""Place behind the last message at that moment."""


def at_offset(offset: int) -> Start:
    """Return the place of an offset.

    Raises:
        InvalidArgument: It is negative, or needs more than 64 bits.

    Examples:
        >>> with client.producer("shop", "orders") as producer:
        ...     deliveries = producer.send_many([b"1", b"2", b"3"], partition=0)
        >>> [message.payload for message in client.read("shop", "orders", start=at_offset(1))]
        [b'2', b'3']
    """
    if offset < 0:
        raise InvalidArgument(f"offset: {offset} is negative; offsets start at 0")
    if offset >= 2**64:
        raise InvalidArgument(f"offset: {offset} is no offset; they have 64 bits")
    return Start("offset", offset)


def at_time(moment: datetime) -> Start:
    """Return the place of the first message that was appended at this moment or later.

    Raises:
        InvalidArgument: The moment has no time zone, or is before 1970.

    Examples:
        >>> at_time(datetime(2026, 5, 1, tzinfo=UTC)).value
        1777593600000000
    """
    if moment.tzinfo is None:
        raise InvalidArgument(f"moment: {moment.isoformat()} has no time zone; datetime.now(UTC) has one")
    # By its fields: the difference of subclasses, such as those of Pendulum, cannot be divided by a `timedelta`.
    micros = timegm(moment.astimezone(UTC).timetuple()) * 1_000_000 + moment.microsecond
    if micros < 0:
        raise InvalidArgument(f"moment: {moment.isoformat()} is before 1970")
    return Start("timestamp", micros)


StartLike = Start | int | datetime | Literal["first", "end"]
"""A `Start`, an offset, a moment with a time zone, or one of the words."""


_OTHER_NAMES = {"earliest": "first", "beginning": "first", "latest": "end", "last": "end", "now": "end", "new": "end"}
"""Places by the names that other systems have for them."""


def start_of(value: StartLike) -> Start:
    """Return the place that a value means.

    Raises:
        InvalidArgument: It means none.
    """
    match value:
        case Start():
            return value
        case "first":
            return FIRST
        case "end":
            return END
        case bool():
            pass
        case int():
            return at_offset(value)
        case datetime():
            return at_time(value)
    meant = _OTHER_NAMES.get(str(value))
    proposal = f": did you mean {meant!r}?" if meant is not None else ""
    raise InvalidArgument(f"start: {value!r} is no offset, no moment, and none of 'first' and 'end'{proposal}")
