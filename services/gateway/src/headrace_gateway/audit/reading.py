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
class Wanted:
    """Which events."""

    since: int = 0
    """Microseconds since the Unix epoch."""
    until: int = 2**64 - 1
    """Before this time."""
    event: str | None = None
    action: str | None = None
    user: str | None = None
    """Name or id."""
    address: str | None = None
    """With or without the port."""
    result: str | None = None
    """``failed``: any but ``ok``."""

    def includes(self, event: Event) -> bool:
        """Whether this is one of them."""
        return (
            self.since <= event.at < self.until
            and self.event in {None, event.event}
            and self.action in {None, event.action}
            and self.user in {None, event.username, str(event.user_id)}
            and self.address in {None, event.address, event.address.rpartition(":")[0]}
            and (self.result in {None, event.result} or (self.result == "failed" and event.result != "ok"))
        )


def read(folder: Path, wanted: Wanted, count_max: int) -> list[Event]:
    """Return the newest events that are wanted, newest first.

    Of a change that has ended its end alone.

    Args:
        folder: Of the trail.
        wanted: Which.
        count_max: At most so many.
    """
    series = (_events(folder, name, wanted.since) for name in SERIES)
    merged = heapq.merge(*series, key=lambda event: event.at, reverse=True)
    return list(islice(filter(wanted.includes, _without_beginnings(merged)), count_max))


def _events(folder: Path, name: str, since: int) -> Iterator[Event]:
    for line in newest_first(folder, name):
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
