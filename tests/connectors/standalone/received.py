"""Messages as sinks receive them."""

from __future__ import annotations

from typing import Any

from headrace_connectors.contract import Place, Received, Record

PLACE = Place("s", "t", 0)
OTHER = Place("s", "t", 1)


def messages(
    *payloads: Any, first: int = 0, place: Place = PLACE, at: int = 0, key: bytes | None = None
) -> list[Received]:
    """Messages of a partition, one after the other.

    Args:
        payloads: Their payloads.
        first: Offset of the first one.
        place: Partition.
        at: Time of all, in microseconds since 1970.
        key: Key of all.
    """
    return [Received(Record(payload), place, first + number, at, key) for number, payload in enumerate(payloads)]
