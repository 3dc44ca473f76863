"""Types of arguments and options: what they accept, and what they answer to anything else."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

if TYPE_CHECKING:
    from headrace_settings.units.quantity import Quantity

_NAME_BYTES_MAX: Final = 255
_U32_MAX: Final = 2**32 - 1
_U64_MAX: Final = 2**64 - 1
_PARTITIONS_MAX: Final = 1000
_RANGE: Final = re.compile(r"([0-9]+)(?:-([0-9]+))?")


class WholeNumber(click.ParamType[int]):
    """A whole number in a range."""

    name = "number"

    def __init__(self, minimum: int = 0, maximum: int = _U32_MAX) -> None:
        self._minimum = minimum
        self._maximum = maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        if isinstance(value, int):
            return value
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        if not self._minimum <= number <= self._maximum:
            self.fail(f"{number} is not in the range from {self._minimum:,} to {self._maximum:,}", param, ctx)
        return number


COUNT: Final = WholeNumber(1)
PARTITION: Final = WholeNumber()


class NewName(click.ParamType[str]):
    """The name of something that is about to be created.

    Args:
        kind: What it is, such as "a stream".
        minimum_bytes: Least number of bytes.
        maximum_bytes: Greatest number of bytes.
    """

    name = "name"

    def __init__(self, kind: str, minimum_bytes: int = 1, maximum_bytes: int = _NAME_BYTES_MAX) -> None:
        self._kind = kind
        self._minimum_bytes = minimum_bytes
        self._maximum_bytes = maximum_bytes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the length, which the protocol limits."""
        text = str(value)
        try:
            length = len(text.encode())
        except UnicodeEncodeError:
            self.fail(f"{text!r} is not UTF-8, which names are", param, ctx)
        if not self._minimum_bytes <= length <= self._maximum_bytes:
            range_ = f"{self._minimum_bytes} to {self._maximum_bytes} bytes"
            self.fail(f"the name of {self._kind} has {range_}; this one has {length}", param, ctx)
        return text


class Partitions(click.ParamType[tuple[int, ...]]):
    """Partitions as a list of numbers and ranges: ``0-3,7``."""

    name = "partitions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the partitions in ascending order, each once."""
        if isinstance(value, tuple):
            return value
        found: set[int] = set()
        for part in str(value).split(","):
            match = _RANGE.fullmatch(part.strip())
            if match is None:
                self.fail(f"{part!r} is not a partition: give a number, or ranges such as 0-3,7", param, ctx)
            first = int(match[1])
            last = int(match[2]) if match[2] else first
            if last < first:
                self.fail(f"{part!r} is not a range: it ends before it begins", param, ctx)
            if last - first >= _PARTITIONS_MAX or last > _U32_MAX:
                self.fail(f"{part!r} has more partitions than a topic can have ({_PARTITIONS_MAX:,})", param, ctx)
            found.update(range(first, last + 1))
        return tuple(sorted(found))


class WithUnit(click.ParamType["Quantity"]):
    """A value with a unit, of a type of the settings.

    Args:
        type_name: Name of the type in `headrace_settings`, which is slow to import.
        what: What such a value is, with its article.
    """

    def __init__(self, type_name: Literal["Duration", "Expiry", "Size", "SizeLimit"], what: str) -> None:
        self._type_name = type_name
        self._what = what
        self.name = what.rsplit(maxsplit=1)[-1]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Quantity:
        """Parse the value."""
        import headrace_settings  # noqa: PLC0415

        quantity: type[Quantity] = getattr(headrace_settings, self._type_name)
        if isinstance(value, quantity):
            return value
        try:
            return quantity.parse(str(value).strip())
        except ValueError as error:
            self.fail(f"{value!r} is not {self._what}: {error}; give {quantity.ALLOWED}", param, ctx)


DURATION: Final = WithUnit("Duration", "a duration")
EXPIRY: Final = WithUnit("Expiry", "a duration")
SIZE: Final = WithUnit("Size", "a size")
SIZE_LIMIT: Final = WithUnit("SizeLimit", "a size")


class Start(NamedTuple):
    """Start position: a polling strategy of the protocol, and its value."""

    strategy: str
    value: int = 0


class StartPosition(click.ParamType[Start]):
    """`next`, `first`, `last`, an offset, or a time in ISO format (local time unless it has a time zone)."""

    name = "start"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        """Parse the position."""
        if isinstance(value, Start):
            return value
        text = str(value)
        if text in self._words:
            return Start(text)
        if text.isascii() and text.isdecimal():
            if int(text) > _U64_MAX:
                self.fail(f"{text} is larger than any offset", param, ctx)
            return Start("offset", int(text))
        micros = micros_of(text)
        if micros is None:
            words = "".join(f"{word}, " for word in self._words)
            self.fail(
                f"{text!r} is not a position: give {words}an offset such as 42, or a time such as 2026-01-31T12:00",
                param,
                ctx,
            )
        return Start("timestamp", micros)


START: Final = StartPosition("next", "first", "last")
END: Final = StartPosition()


def micros_of(text: str) -> int | None:
    """Return a time in ISO format as microseconds since the epoch; None if it is none."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        return max(0, round(moment.astimezone().timestamp() * 1_000_000))
    except (ValueError, OverflowError):
        return None


class Pattern(click.ParamType[re.Pattern[str]]):
    """A regular expression."""

    name = "pattern"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        """Compile the expression."""
        if isinstance(value, re.Pattern):
            return value
        try:
            return re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r} is not a regular expression: {error}", param, ctx)


class NamedValue(click.ParamType[tuple[str, str]]):
    """`name=value`, as of a header."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split the two at the first equals sign."""
        if isinstance(value, tuple):
            return value
        name, separator, text = str(value).partition("=")
        if not separator or not name:
            self.fail(f"{value!r} is not a header: give name=value", param, ctx)
        try:
            str(value).encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8, which headers are", param, ctx)
        return name, text


class Address(click.ParamType[str]):
    """Address of the binary protocol: `host:port`, or `tls://host:port?...`, perhaps with a ticket before it."""

    name = "address"
    DEFAULT_PORT: Final = 8090

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the form; an address without a port gets the usual one."""
        ticket, at, address = str(value).rpartition("@")
        scheme, separator, rest = address.rpartition("://")
        if separator and scheme != "tls":
            self.fail(
                f"{address!r} is a URL: give host:port of the binary protocol, such as "
                f"{_host_of(rest)}:{self.DEFAULT_PORT} (tls://host:port for TLS)",
                param,
                ctx,
            )
        place, question, options = rest.partition("?")
        host, colon, port = place.rpartition(":")
        if not colon or (place.startswith("[") and place.endswith("]")):
            host, port = place, str(self.DEFAULT_PORT)
        if not host:
            self.fail(f"{address!r} has no host: give host:port", param, ctx)
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            self.fail(f"{place!r} is ambiguous: give an IPv6 address in brackets, such as [::1]:8090", param, ctx)
        if not (port.isascii() and port.isdecimal() and 0 < int(port) <= 65535):
            self.fail(f"{port!r} is not a port: give host:port with a port from 1 to 65535", param, ctx)
        return f"{ticket}{at}{scheme}{separator}{host}:{port}{question}{options}"


def _host_of(rest: str) -> str:
    host = rest.partition("/")[0].partition("?")[0]
    return host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host or "host"
