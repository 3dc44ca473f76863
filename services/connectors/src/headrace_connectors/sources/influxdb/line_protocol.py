"""InfluxDB's line protocol: points as text.

A line is ``measurement,tag=value field=value,field=value timestamp``. The rules are those of the reference of InfluxDB
2: line breaks are allowed within quoted values, a backslash escapes a separator, and lines that begin with ``#`` are
comments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

FieldValue = float | int | str | bool

PRECISIONS: Final[Mapping[str, int]] = {
    "n": 1,
    "ns": 1,
    "u": 10**3,
    "us": 10**3,
    "µ": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""Nanoseconds of each unit that timestamps may have."""

_MEASUREMENT: Final = re.compile(r"(?:[^,\\ \n]|\\[^\n])+")
_NAME: Final = re.compile(r"(?:[^,=\\ \n]|\\[^\n])+")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN: Final = re.compile(r"[^, \n]+")
_BLANKS: Final = re.compile(r" +")
_END: Final = re.compile(r" *\r?(?:\n|\Z)")
_EMPTY: Final = re.compile(r"[ \t\r]*(?:#[^\n]*)?(?:\n|\Z)")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_TIMESTAMP: Final = re.compile(r"-?[0-9]{1,20}")
_FIELD: Final = r'([^,=\\ \n]+)=(?:"([^"\\]*)"|([^,"\\ \r\n]+))'
_PLAIN_FIELD: Final = re.compile(_FIELD)
_PLAIN_LINE: Final = re.compile(
    r"([^#,\\ \t\r\n][^,\\ \n]*(?:,[^,=\\ \n]+=[^,=\\ \n]+)*) +"
    rf"({_FIELD}(?:,{_FIELD})*)(?: +(-?[0-9]{{1,20}}))? *\r?(?:\n|\Z)"
)
"""A line without backslashes, in one step; what it does not match is read part by part, which also finds mistakes."""
_BOOLS: Final = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}
_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)


class Point(NamedTuple):
    """One point."""

    measurement: str
    tags: dict[str, str]
    """Values by key, in the order of the keys."""
    fields: dict[str, FieldValue]
    timestamp_ns: int | None
    """Nanoseconds since 1970; None: the line has none."""


class LineProtocolError(ValueError):
    """A line is not valid.

    Args:
        line: Number of the line, from 1.
        reason: Reason, for people.
        text: The line, or its beginning.
    """

    def __init__(self, line: int, reason: str, text: str) -> None:
        super().__init__(f"line {line}: {reason}: {text!r}")
        self.line = line


def parse(body: bytes, precision: str = "ns") -> list[Point]:
    """Return the points of a body.

    Args:
        body: Lines in UTF-8.
        precision: Unit of the timestamps: a key of `PRECISIONS`.

    Raises:
        LineProtocolError: A line is not valid; the first one that is not.

    Examples:
        >>> parse(b'cpu,host=a load=0.5,cores=4i 1700000000', "s")[0].fields
        {'load': 0.5, 'cores': 4}
    """
    return list(points(body, precision))


def points(body: bytes, precision: str = "ns") -> Iterator[Point]:
    """Return the points of a body, one after the other. Arguments and exceptions as of `parse`."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise LineProtocolError(
            line, "it is not UTF-8", body[max(0, error.start - 40) : error.start + 4].decode("utf-8", "replace")
        ) from error
    yield from _Parser(text, PRECISIONS[precision]).points()


class _Parser:
    def __init__(self, text: str, unit_ns: int) -> None:
        self._text = text
        self._unit_ns = unit_ns
        self._at = 0
        self._start = 0
        # Measurement and tags by their text: lines of the same series follow each other.
        self._series: dict[str, tuple[str, dict[str, str]]] = {}

    def points(self) -> Iterator[Point]:
        while self._at < len(self._text):
            if (point := self._plain_point()) is not None:
                yield point
                continue
            if (empty := _EMPTY.match(self._text, self._at)) is not None:
                self._at = empty.end()
                continue
            if (blanks := _BLANKS.match(self._text, self._at)) is not None:
                self._at = blanks.end()
            self._start = self._at
            yield self._point()

    def _plain_point(self) -> Point | None:
        """Read a line that is valid and has no backslashes; return None, and go nowhere, for any other."""
        line = _PLAIN_LINE.match(self._text, self._at)
        if line is None:
            return None
        if (series := self._series.get(line[1])) is None:
            measurement, *pairs = line[1].split(",")
            tags = dict(sorted(pair.split("=", 1) for pair in pairs))
            if len(tags) != len(pairs):
                return None
            series = self._series[line[1]] = (measurement, tags)
        fields: dict[str, FieldValue] = {}
        for name, text, plain in _PLAIN_FIELD.findall(line[2]):
            # Both are empty for an empty text alone: a plain value has a character.
            value = _plain_value(plain) if plain else text
            if value is None:
                return None
            fields[name] = value
        timestamp = None
        if line[9] is not None:
            timestamp = int(line[9]) * self._unit_ns
            if timestamp not in _INT64:
                return None
        self._at = line.end()
        return Point(series[0], series[1].copy(), fields, timestamp)

    def _point(self) -> Point:
        measurement = _unescaped(self._take(_MEASUREMENT, "the measurement is missing"), ", ")
        tags: dict[str, str] = {}
        while self._skip(","):
            name = _unescaped(self._take(_NAME, "the name of a tag is missing"), ",= ")
            if not self._skip("="):
                raise self._error(f"the tag {name!r} has no value")
            value = _unescaped(self._take(_NAME, f"the tag {name!r} has no value"), ",= ")
            if name in tags:
                raise self._error(f"the tag {name!r} is there twice")
            tags[name] = value
        self._take(_BLANKS, "there are no fields: a space and a field follow the tags")
        fields: dict[str, FieldValue] = {}
        while True:
            name = _unescaped(self._take(_NAME, "the name of a field is missing"), ",= ")
            if not self._skip("="):
                raise self._error(f"the field {name!r} has no value")
            fields[name] = self._value(name)
            if not self._skip(","):
                break
        return Point(measurement, dict(sorted(tags.items())), fields, self._timestamp())

    def _timestamp(self) -> int | None:
        if (end := _END.match(self._text, self._at)) is not None:
            self._at = end.end()
            return None
        self._take(_BLANKS, "something follows the fields")
        number = self._take(_TIMESTAMP, "the timestamp is not a whole number")
        end = _END.match(self._text, self._at)
        if end is None:
            raise self._error("something follows the timestamp")
        timestamp = int(number) * self._unit_ns
        if timestamp not in _INT64:
            raise self._error(f"the timestamp {number} is out of range in this precision")
        self._at = end.end()
        return timestamp

    def _value(self, name: str) -> FieldValue:
        text = self._text
        if text.startswith('"', self._at):
            if (string := _STRING.match(text, self._at)) is None:
                raise self._error(f"the text of the field {name!r} has no end")
            self._at = string.end()
            return _unescaped(string[1], '"\\')
        value = self._take(_PLAIN, f"the field {name!r} has no value").removesuffix("\r")
        if (found := _plain_value(value)) is not None:
            return found
        if value[-1:] in ("i", "u") and _WHOLE.fullmatch(value[:-1]):
            raise self._error(f"the field {name!r} is out of range: {value}")
        raise self._error(f"the field {name!r} is neither a number, a text in quotes, nor true or false")

    def _take(self, pattern: re.Pattern[str], missing: str) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self._error(missing)
        self._at = found.end()
        return found[0]

    def _skip(self, character: str) -> bool:
        if self._text.startswith(character, self._at):
            self._at += 1
            return True
        return False

    def _error(self, reason: str) -> LineProtocolError:
        end = self._text.find("\n", self._start)
        line = self._text.count("\n", 0, self._start) + 1
        return LineProtocolError(line, reason, self._text[self._start : end if end >= 0 else None][:200])


def _plain_value(text: str) -> FieldValue | None:
    """Return the value of a field that is not in quotes; None: it is none."""
    if text[-1:] in ("i", "u") and _WHOLE.fullmatch(text[:-1]):
        number = int(text[:-1])
        return number if number in (_INT64 if text[-1] == "i" else _UINT64) else None
    if _FLOAT.fullmatch(text):
        found = float(text)
        return found if math.isfinite(found) else None
    return _BOOLS.get(text)


def _unescaped(text: str, characters: str) -> str:
    """Return a text without the backslashes before these characters; other backslashes are themselves."""
    if "\\" not in text:
        return text
    return re.sub(rf"\\([{re.escape(characters)}])", r"\1", text)
