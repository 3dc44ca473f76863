"""Parsers of option values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from pyspark_headrace.errors import OptionError

EARLIEST: Final = -2
"""Start of the log: the first available offset."""
LATEST: Final = -1
"""End of the log: the offset after the last message."""

OFFSET_MAX: Final = 2**63 - 1
"""Largest offset: Spark's integers are signed; offsets on the wire are not."""

MILLISECONDS_MAX: Final = 10**16 - 1
"""Largest time in milliseconds: in microseconds, it fits into the unsigned 64 bits of requests."""

PartitionOffsets = dict[str, dict[int, int]]
"""Offsets, or times in microseconds, by topic and partition."""

_SIZE: Final = re.compile(r"(\d+)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?", re.IGNORECASE)
_DURATIONS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):(\d{1,5})")


class Unsuitable(Exception):
    """A text is not a valid value. The message names the expected kind of value."""


def words(text: str) -> str:
    """Parse any non-empty text."""
    if not text.strip():
        raise Unsuitable("a text that is not empty")
    return text


def truth(text: str) -> bool:
    """Parse ``true`` or ``false``."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise Unsuitable("true or false")


def integer(minimum: int, maximum: int = OFFSET_MAX) -> Callable[[str], int]:
    """Return a parser of integers within bounds."""
    expected = f"a whole number from {minimum}" + (f" to {maximum}" if maximum < OFFSET_MAX else "")

    def parse(text: str) -> int:
        if not re.fullmatch(r"\s*\d{1,19}\s*", text) or not minimum <= int(text) <= maximum:
            raise Unsuitable(expected)
        return int(text)

    return parse


def size(minimum: int, maximum: int = OFFSET_MAX) -> Callable[[str], int]:
    """Return a parser of sizes in bytes, like ``4m``."""

    def parse(text: str) -> int:
        found = _SIZE.fullmatch(text.strip())
        value = int(found[1]) * _SIZES[(found[2] or "").lower()] if found else -1
        if not minimum <= value <= maximum:
            raise Unsuitable(f"a size like 512k, 4m or 1g, from {minimum} bytes" + _up_to(maximum))
        return value

    return parse


def milliseconds(minimum: int, maximum: int = OFFSET_MAX) -> Callable[[str], int]:
    """Return a parser of durations like ``15m``; a number without unit is in milliseconds."""

    def parse(text: str) -> int:
        found = _DURATION.fullmatch(text.strip())
        value = int(found[1]) * _DURATIONS[(found[2] or "ms").lower()] if found else -1
        if not minimum <= value <= maximum:
            raise Unsuitable(f"a time like 200ms, 30s or 15m, from {minimum}ms" + _up_to(maximum))
        return value

    return parse


def choice(*values: str) -> Callable[[str], str]:
    """Return a parser of one of several words, ignoring case."""

    def parse(text: str) -> str:
        for value in values:
            if text.strip().lower() == value.lower():
                return value
        raise Unsuitable(" or ".join(values))

    return parse


def names(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list. Keeps the order and drops duplicates."""
    found = [name.strip() for name in text.split(",")]
    if not all(found) or len(set(found)) < len(found):
        raise Unsuitable("names with commas between them, each once")
    return tuple(found)


def addresses(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of ``host:port``."""
    found = names(text)
    for address in found:
        matched = _ADDRESS.fullmatch(address)
        if matched is None or not 0 < int(matched[2]) < 65536:
            raise Unsuitable("host:port with commas between them, like gateway-0:8094,gateway-1:8094")
    return found


def pattern(text: str) -> str:
    """Parse a regular expression."""
    try:
        re.compile(words(text))
    except re.error as error:
        raise Unsuitable(f"a regular expression ({error})") from error
    return text


def moment(text: str) -> int:
    """Parse a time into microseconds since the Unix epoch: ISO 8601 with an offset to UTC, or milliseconds."""
    stripped = text.strip()
    # Up to `MILLISECONDS_MAX`.
    if re.fullmatch(r"\d{1,16}", stripped):
        return int(stripped) * 1000
    try:
        when = datetime.fromisoformat(stripped)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None or when.timestamp() < 0:
        raise Unsuitable("milliseconds since 1970, or a later time with its offset like 2026-11-21T20:00:00Z")
    return int(when.timestamp()) * 1_000_000 + when.microsecond


def assignment(text: str) -> dict[str, tuple[int, ...]]:
    """Parse ``{"topic": [0, 1]}``."""
    expected = 'JSON like {"orders": [0, 1]}'
    found = _json(text, expected)
    for partitions in found.values():
        if not isinstance(partitions, list) or not partitions or len(set(map(str, partitions))) < len(partitions):
            raise Unsuitable(expected)
        if not all(_is_number(partition) and 0 <= partition < 2**31 for partition in partitions):
            raise Unsuitable(expected)
    return {topic: tuple(sorted(partitions)) for topic, partitions in found.items()}


def positions(*words_allowed: str) -> Callable[[str], PartitionOffsets | str]:
    """Return a parser of offsets: one of several words for all partitions, or JSON."""
    expected = f'{", ".join(words_allowed)}, or JSON like {{"orders": {{"0": 23, "1": -1}}}}'

    def parse(text: str) -> PartitionOffsets | str:
        word = text.strip().lower()
        if word in words_allowed:
            return word
        return _by_partition(text, expected, minimum=EARLIEST)

    return parse


def moments(text: str) -> PartitionOffsets:
    """Parse ``{"topic": {"0": milliseconds}}`` into microseconds."""
    expected = 'JSON like {"orders": {"0": 1763755200000}}, in milliseconds since 1970'
    found = _by_partition(text, expected, minimum=0, maximum=MILLISECONDS_MAX)
    return {topic: {number: at * 1000 for number, at in partitions.items()} for topic, partitions in found.items()}


def _by_partition(text: str, expected: str, *, minimum: int, maximum: int = OFFSET_MAX) -> PartitionOffsets:
    result: PartitionOffsets = {}
    for topic, partitions in _json(text, expected).items():
        if not isinstance(partitions, dict) or not partitions:
            raise Unsuitable(expected)
        result[topic] = {}
        for number, value in partitions.items():
            if not re.fullmatch(r"\d{1,9}", number) or not _is_number(value) or not minimum <= value <= maximum:
                raise Unsuitable(expected)
            result[topic][int(number)] = value
    return result


def _json(text: str, expected: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_without_doubles)
    except ValueError as error:
        raise Unsuitable(expected) from error
    if not isinstance(found, dict) or not found or "" in found:
        raise Unsuitable(expected)
    return found


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _up_to(maximum: int) -> str:
    return f" to {maximum}" if maximum < OFFSET_MAX else ""


def refused(name: str, text: str, error: Unsuitable) -> OptionError:
    """Build the error that names the option and the expected value."""
    return OptionError(f"option {name}: {text!r} is not {error}")
