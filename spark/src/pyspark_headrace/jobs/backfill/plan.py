"""Plan of a backfill: its batches. Created once and used by every run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark_headrace.errors import HeadraceError
from pyspark_headrace.jobs.origins.pieces import Extent

VERSION: Final = 1


class PlanError(HeadraceError):
    """A stored plan is invalid, or was made for other arguments."""


@dataclass(frozen=True)
class Plan:
    """Plan of a backfill. Batches are numbered from 1."""

    id: str
    """Query id under which its batches are committed."""
    asked: Mapping[str, Any]
    """Arguments that determine the output: other arguments require another backfill."""
    source: str
    """Origin for the message header: ``topic:shop/orders``."""
    target_incarnation: int
    """Incarnation of the target topic."""
    extents: Mapping[int, Extent]
    """Range of each partition to replay."""
    batches: int

    @property
    def messages(self) -> int:
        """Total number of messages."""
        return sum(extent.count for extent in self.extents.values())

    @property
    def size_bytes(self) -> int:
        """Total estimated size."""
        return sum(extent.size_bytes for extent in self.extents.values())

    def batch(self, number: int) -> dict[int, Extent]:
        """Return the ranges of a batch: the same fraction of every partition."""
        found: dict[int, Extent] = {}
        for partition, extent in self.extents.items():
            start, end = (extent.start + extent.count * part // self.batches for part in (number - 1, number))
            if start < end:
                size = extent.size_bytes * (end - start) // extent.count
                found[partition] = Extent(start, end, extent.generation, size)
        return found

    def to_bytes(self) -> bytes:
        """Encode the plan for storage."""
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
        """Decode a stored plan.

        Raises:
            PlanError: The bytes are not a plan.
        """
        try:
            value = json.loads(kept)
            if value.pop("v") != VERSION:
                raise PlanError("the stored plan was written by another version of this program")
            extents = {int(partition): Extent(*rest) for partition, *rest in value.pop("extents")}
            return Plan(extents=extents, **value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PlanError(f"the stored content is not a backfill plan: {kept[:200]!r}") from error


def batches_of(extents: Mapping[int, Extent], *, messages: int, size_bytes: int) -> int:
    """Return the number of batches.

    Args:
        extents: Ranges to replay.
        messages: Maximum number of messages in a batch.
        size_bytes: Maximum estimated size of a batch.
    """
    count = sum(extent.count for extent in extents.values())
    size = sum(extent.size_bytes for extent in extents.values())
    return max(-(-count // messages), -(-size // size_bytes)) if count else 0
