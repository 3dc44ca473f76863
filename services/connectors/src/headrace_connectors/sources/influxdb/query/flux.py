"""Points in Flux: `/api/v2/query` of InfluxDB 2 and 1.8, answered in CSV with annotations."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from headrace_connectors.contract import Unavailable
from headrace_connectors.sources.influxdb.line_protocol import FieldValue, Point
from headrace_connectors.sources.influxdb.query.server import InfluxServer, Points
from headrace_connectors.sources.influxdb.query.settings import InfluxQuerySettings

_DIALECT: Final = {"header": True, "delimiter": ",", "annotations": ["datatype", "group", "default"]}
_OWN: Final = ("_start", "_stop", "_field", "_measurement")
"""Columns that the rows of a table share, beside the tags."""
_TIMES_MAX: Final = 1024
_FIRST_NS: Final = 1
"""First time that is read."""
# A text of a field may be as long as the server takes it.
csv.field_size_limit(max(csv.field_size_limit(), 64 * 2**20))


class Flux:
    """Reads points after 1970 with scripts of Flux. A row is one field of a point; points are made of them here.

    Args:
        server: The server.
        settings: Bucket, organization and measurements.
    """

    def __init__(self, server: InfluxServer, settings: InfluxQuerySettings) -> None:
        self._server = server
        self._parameters = {} if settings.organization is None else {"org": settings.organization}
        self._from = f"from(bucket: {_quoted(settings.bucket or '')})"
        names = " or ".join(f"r._measurement == {_quoted(name)}" for name in settings.measurements)
        self._filter = f" |> filter(fn: (r) => {names})" if names else ""

    async def first_time(self, start_ns: int, stop_ns: int) -> int | None:
        """Return the time of the first point: the earliest one of the first points of all series."""
        # Without the other columns, tables with values of several types can be one.
        earliest = ' |> first() |> keep(columns: ["_time"]) |> group() |> sort(columns: ["_time"]) |> limit(n: 1)'
        async for table, row in self._rows(self._range(start_ns, stop_ns) + earliest):
            time_ns = nanoseconds(row[table.columns["_time"]])
            return time_ns if time_ns <= stop_ns else None
        return None

    async def points(self, start_ns: int, stop_ns: int, maximum: int | None) -> list[Point]:
        """Return points."""
        points = Points(maximum)
        async for table, row in self._rows(self._range(start_ns, stop_ns)):
            columns = table.columns
            time_ns = nanoseconds(row[columns["_time"]])
            if time_ns > stop_ns:
                continue
            tags = tuple((name, row[column]) for name, column in table.tags if row[column])
            fields = points.fields(row[columns["_measurement"]], tags, time_ns)
            fields[row[columns["_field"]]] = table.value(row)
        return points.all()

    def _range(self, start_ns: int, stop_ns: int) -> str:
        # The end of a range does not belong to it; with version 1.8 it does, and a start of 0 or less is none.
        times = f"start: time(v: {max(start_ns, _FIRST_NS)}), stop: time(v: {max(stop_ns, _FIRST_NS) + 1})"
        return f"{self._from} |> range({times}){self._filter}"

    async def _rows(self, script: str) -> AsyncIterator[tuple[_Table, list[str]]]:
        """Run a script, and return rows, each with what is known of its table."""
        document = {"query": script, "type": "flux", "dialect": _DIALECT}
        headers = {"Accept": "application/csv"}
        table = _Table()
        async with self._server.answer(
            "/api/v2/query", params=self._parameters, json=document, headers=headers
        ) as pieces:
            async for row in _csv_rows(pieces):
                if not row:
                    table = _Table()
                elif row[0].startswith("#"):
                    # Annotations of a further table follow its end without a blank line, too.
                    table = _Table() if table.columns else table
                    table.annotate(row[0], row)
                elif not table.columns:
                    table.name(row)
                else:
                    yield table, table.filled(row)


class _Table:
    """Annotations and names of the columns of a table."""

    def __init__(self) -> None:
        self.columns: dict[str, int] = {}
        """Number of a column by its name."""
        self.tags: list[tuple[str, int]] = []
        """Names of the tags with the numbers of their columns, in the order of the names."""
        self._annotations: dict[str, Sequence[str]] = {}
        self._defaults: list[tuple[int, str]] = []
        self._kind = ""

    def annotate(self, name: str, row: Sequence[str]) -> None:
        self._annotations[name] = row

    def name(self, row: Sequence[str]) -> None:
        """Take the names of the columns."""
        self.columns = {name: number for number, name in enumerate(row) if name}
        groups = self._annotations.get("#group", [])
        self.tags = sorted(
            (name, number)
            for name, number in self.columns.items()
            if name not in _OWN and number < len(groups) and groups[number] == "true"
        )
        defaults = self._annotations.get("#default", [])
        self._defaults = [(number, text) for number, text in enumerate(defaults) if number and text]
        if "_value" in self.columns:
            self._kind = self._annotations["#datatype"][self.columns["_value"]]

    def filled(self, row: list[str]) -> list[str]:
        """Return a row with its defaults.

        Raises:
            Unavailable: The table says that the query has failed.
        """
        if "error" in self.columns and "reference" in self.columns:
            raise Unavailable(f"InfluxDB has not completed the query: {row[self.columns['error']]}")
        for number, text in self._defaults:
            row[number] = row[number] or text
        return row

    def value(self, row: Sequence[str]) -> FieldValue:
        """Return the value of the field."""
        text = row[self.columns["_value"]]
        match self._kind:
            case "long" | "unsignedLong":
                return int(text)
            case "double":
                found = float(text)
                # JSON has no infinity and no NaN: they are text, as those of databases are.
                return found if math.isfinite(found) else text
            case "boolean":
                return text == "true"
        # The server writes every line break with a carriage return, in values, too.
        return text.replace("\r\n", "\n")


async def _csv_rows(pieces: AsyncIterator[bytes]) -> AsyncIterator[list[str]]:
    """Return rows of CSV as they become complete; a line without values is a row without any."""
    rest = b""
    async for piece in pieces:
        rest += piece
        end = rest.rfind(b"\n") + 1
        # A line break between quotes is one of a value.
        if not end or rest.count(b'"', 0, end) % 2:
            continue
        for row in _parsed(rest[:end]):
            yield row
        rest = rest[end:]
    for row in _parsed(rest):
        yield row


def _parsed(encoded: bytes) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(encoded.decode(), newline=""))


@lru_cache(_TIMES_MAX)
def nanoseconds(text: str) -> int:
    """Return a time in nanoseconds since 1970.

    Args:
        text: In RFC 3339 and UTC, with up to nine digits of a second.

    Examples:
        >>> nanoseconds("2023-11-14T22:13:20.000000001Z")
        1700000000000000001
    """
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


def _quoted(text: str) -> str:
    # `${` would begin an expression.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${").replace("\n", "\\n")
    return f'"{escaped}"'
