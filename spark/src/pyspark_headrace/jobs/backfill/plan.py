"""What a backfill writes, cut into batches: found once, and the same in every run that goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark_headrace.errors import HeadraceError
from pyspark_headrace.jobs.origins.pieces import Extent

VERSION: Final = 1


class PlanError(HeadraceError):
    """What is kept of a backfill was not written by this program, or not for these arguments."""


@dataclass(frozen=True)
class Plan:
    """A backfill. Its batches are numbered from 1."""

    id: str
    """Under which its batches are committed."""
    asked: Mapping[str, Any]
    """What decides what is written: other arguments make another backfill."""
    source: str
    """As messages are told: ``topic:shop/orders``."""
    target_incarnation: int
    """Of the topic that is written to."""
    extents: Mapping[int, Extent]
    """What is replayed of each partition."""
    batches: int

    @property
    def messages(self) -> int:
        """All together."""
        return sum(extent.count for extent in self.extents.values())

    @property
    def size_bytes(self) -> int:
        """All together, as estimated."""
        return sum(extent.size_bytes for extent in self.extents.values())

    def batch(self, number: int) -> dict[int, Extent]:
        """What a batch has: the same share of every partition."""
        found: dict[int, Extent] = {}
        for partition, extent in self.extents.items():
            start, end = (extent.start + extent.count * part // self.batches for part in (number - 1, number))
            if start < end:
                size = extent.size_bytes * (end - start) // extent.count
                found[partition] = Extent(start, end, extent.generation, size)
        return found

    def to_bytes(self) -> bytes:
        """What is kept."""
        value = asdict(self) | {
            "v": VERSION,
            "extents": [
                [partition, extent.start, extent.end, extent.generation, extent.size_bytes]
                for partition, extent in sorted(self.extents.items())
            ],
        }
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()

    @staticmethod
    def from_bytes(kept: bytes) -> Plan:
        """Read what is kept.

        Raises:
            PlanError: It is something else.
        """
        try:
            value = json.loads(kept)
            if value.pop("v") != VERSION:
                raise PlanError("the plan that is kept is of another version of this program")
            extents = {int(partition): Extent(*rest) for partition, *rest in value.pop("extents")}
            return Plan(extents=extents, **value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PlanError(f"what is kept is no plan of a backfill: {kept[:200]!r}") from error


def batches_of(extents: Mapping[int, Extent], *, messages: int, size_bytes: int) -> int:
    """How many batches there are to be.

    Args:
        extents: What is replayed.
        messages: Of one batch at most.
        size_bytes: Of one batch at most, as estimated.
    """
    count = sum(extent.count for extent in extents.values())
    size = sum(extent.size_bytes for extent in extents.values())
    return max(-(-count // messages), -(-size // size_bytes)) if count else 0
