"""Comparison of placed and open partitions, repeated periodically.

The shards themselves open partitions that the catalog places here, and close partitions placed elsewhere, as soon as
they have a newer catalog. This module watches the result for health reports.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from headrace_node import Recovery
from headrace_partition_node.placements import Placements

_INTERVAL_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Shards(Protocol):
    """Interface of `headrace_node.Node` for partition states."""

    def recovery(self) -> Recovery:
        """Return the number of partitions and of those still recovering."""

    def failures(self) -> list[tuple[str, str]]:
        """Return the partitions that closed themselves, with the reason."""


@dataclass(frozen=True, slots=True)
class State:
    """Snapshot of the comparison."""

    placed_count: int = 0
    """Number of partitions that the catalog places here."""
    open_count: int = 0
    """Number of partitions that the shards have, open or recovering."""
    recovering_count: int = 0
    failures: tuple[tuple[str, str], ...] = ()
    """Partitions that closed themselves, with the reason."""

    @property
    def is_settled(self) -> bool:
        """True if nothing recovers, and every placed partition is open or has failed."""
        return self.recovering_count == 0 and self.open_count + len(self.failures) >= self.placed_count


class Reconciler:
    """Compares placed and open partitions."""

    def __init__(self, shards: Shards, placements: Placements) -> None:
        self._shards = shards
        self._placements = placements
        self._failed: frozenset[tuple[str, str]] = frozenset()
        self._was_settled = True
        self._state = State()

    @property
    def state(self) -> State:
        """Result of the last comparison."""
        return self._state

    def look(self) -> State:
        """Compare now; changes are logged."""
        recovery, failures = self._shards.recovery(), self._shards.failures()
        state = self._state = State(
            self._placements.count, recovery.partitions_count, recovery.recovering_count, tuple(sorted(failures))
        )
        failed = frozenset(failures)
        for partition, reason in sorted(failed - self._failed):
            _log.error("partition %s is closed: %s", partition, reason)
        for partition, _ in sorted(self._failed - failed):
            _log.info("partition %s is open again", partition)
        self._failed = failed
        if state.is_settled != self._was_settled:
            self._was_settled = state.is_settled
            _log.info(
                "partitions: %d placed here, %d open, %d of them recovering, %d failed",
                state.placed_count,
                state.open_count,
                state.recovering_count,
                len(failed),
            )
        return state

    async def run(self) -> NoReturn:
        """Compare periodically, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_INTERVAL_SECONDS)
