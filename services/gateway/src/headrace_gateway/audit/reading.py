"""Reading the trail, newest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from headrace_gateway.audit.events import BEGUN, SERIES, Event, decoded
from headrace_gateway.audit.files import newest_first


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Filter for events."""

    since: int = 0
    """Begin of the time range, inclusive, in microseconds since the Unix epoch."""
    until: int = 2**64 - 1
    """End of the time range, exclusive."""
    event: str | None = None
    action: str | None = None
    user: str | None = None
    """Name or id of the user."""
    address: str | None = None
    """Address, with or without port."""
    result: str | None = None
    """Result; ``failed`` means any result but ``ok``."""

    def includes(self, event: Event) -> bool:
        """Return whether the event matches the filter."""
        return (
            self.since <= event.at < self.until
            and self.event in {None, event.event}
            and self.action in {None, event.action}
            and self.user in {None, event.username, str(event.user_id)}
            and self.address in {None, event.address, event.address.rpartition(":")[0]}
            and (self.result in {None, event.result} or (self.result == "failed" and event.result != "ok"))
        )


def read(directory: Path, criteria: AuditFilter, count_max: int) -> list[Event]:
    """Return the newest events that match, newest first.

    For a finished change, only the end event is returned.

    Args:
        directory: Directory of the trail.
        criteria: Filter.
        count_max: Maximum number of events.
    """
    series = (_events(directory, name, criteria.since) for name in SERIES)
    merged = heapq.merge(*series, key=lambda event: event.at, reverse=True)
    return list(islice(filter(criteria.includes, _without_beginnings(merged)), count_max))


def _events(directory: Path, name: str, since: int) -> Iterator[Event]:
    for line in newest_first(directory, name):
        event = decoded(line)
        if event is None:
            continue
        if event.at < since:
            return
        yield event


def _without_beginnings(events: Iterator[Event]) -> Iterator[Event]:
    ended: set[str] = set()
    for event in events:
        if event.result != BEGUN:
            if event.event == "change":
                ended.add(event.id)
            yield event
        elif event.id in ended:
            ended.discard(event.id)
        else:
            yield event
