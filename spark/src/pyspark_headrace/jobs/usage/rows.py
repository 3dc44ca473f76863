"""Rows of the usage report: one per tenant, topic, hour and kind."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark_headrace.jobs.usage.period import HOUR_MICROS, day_of, time_of
from pyspark_headrace.jobs.usage.tally import Hour, Place, stored_byte_hours

HOURLY = "hour"
DAILY = "day"

MESSAGES_IN: Final = "messages_in"
BYTES_IN: Final = "bytes_in"
STORED: Final = "stored_byte_hours"
KINDS: Final = (MESSAGES_IN, BYTES_IN, STORED)
"""Measured quantities."""


@dataclass(frozen=True, order=True)
class Row:
    """Quantity of one kind."""

    tenant: str
    stream: str
    topic: str
    start_micros: int
    """Start of the hour or day."""
    granularity: str
    kind: str
    quantity: int
    is_complete: bool
    """True if the hour or day is over and no message is missing."""

    @property
    def id(self) -> bytes:
        """Id of 16 bytes, derived from tenant, topic, time and kind, but not from the quantity."""
        parts = (self.tenant, self.stream, self.topic, str(self.start_micros), self.granularity, self.kind)
        # Length prefixes make the text unambiguous.
        encoded = "".join(f"{len(part)}:{part}" for part in parts)
        return hashlib.sha256(encoded.encode()).digest()[:16]

    @property
    def start(self) -> str:
        """Start as ISO 8601, UTC."""
        return time_of(self.start_micros).isoformat().replace("+00:00", "Z")


def rows_of(
    tenant: str,
    place: Place,
    hours: Mapping[int, Hour],
    *,
    end: int,
    granularity: str,
    stored: bool,
) -> list[Row]:
    """Return the rows of a topic, in order.

    Args:
        tenant: Owner of the topic.
        place: The topic.
        hours: Measurements by hour.
        end: End of the measurement.
        granularity: `HOURLY` or `DAILY`.
        stored: True if storage was measured.
    """
    sums: dict[tuple[int, str], tuple[int, bool]] = defaultdict(lambda: (0, True))
    spans: dict[int, int] = {}
    for start, hour in hours.items():
        at = start if granularity == HOURLY else day_of(start)
        spans[at] = HOUR_MICROS * (1 if granularity == HOURLY else 24)
        quantities = [(MESSAGES_IN, hour.messages, hour.is_complete), (BYTES_IN, hour.bytes, hour.is_complete)]
        if stored:
            quantities.append((STORED, stored_byte_hours(start, hour, end), hour.is_stored_complete))
        for kind, quantity, is_complete in quantities:
            total, all_complete = sums[at, kind]
            sums[at, kind] = (total + quantity, all_complete and is_complete)
    rows = []
    for (at, kind), (quantity, is_complete) in sorted(sums.items()):
        if not quantity:
            continue
        rows.append(
            Row(
                tenant,
                *place,
                at,
                granularity,
                kind,
                quantity,
                is_complete and at + spans[at] <= end,
            )
        )
    return rows


def by_tenant(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Group rows by tenant, in order."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.tenant, row.stream, row.topic, row.start_micros, row.kind)):
        found[row.tenant].append(row)
    return dict(found)
