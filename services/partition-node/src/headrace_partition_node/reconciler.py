"""What is wanted here and what is here: looked at again and again, whatever happened in between.

The shards open what the catalogue places here, and close what it places elsewhere, by themselves, as soon as they have
a newer catalogue. Here it is watched what came of that, for those who ask how this node is.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from headrace_partition_node.placements import Placements
from headrace_shards import Recovery

_INTERVAL_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Shards(Protocol):
    """What the shards tell of their partitions: `headrace_shards.Node`."""

    def recovery(self) -> Recovery:
        """Partitions that they have, and how many of them still recover."""

    def failures(self) -> list[tuple[str, str]]:
        """Partitions that closed themselves, and why."""


@dataclass(frozen=True, slots=True)
class State:
    """At one moment."""

    placed_count: int = 0
    """Partitions that the catalogue places here."""
    open_count: int = 0
    """Partitions that the shards have, open or recovering."""
    recovering_count: int = 0
    failures: tuple[tuple[str, str], ...] = ()
    """Partitions that closed themselves, and why."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing recovers, and everything that is wanted is here or has failed."""
        return self.recovering_count == 0 and self.open_count + len(self.failures) >= self.placed_count


class Reconciler:
    """Compares the two."""

    def __init__(self, shards: Shards, placements: Placements) -> None:
        self._shards = shards
        self._placements = placements
        self._failed: frozenset[tuple[str, str]] = frozenset()
        self._was_settled = True
        self._state = State()

    @property
    def state(self) -> State:
        """As it was seen last."""
        return self._state

    def look(self) -> State:
        """Look now; what is new goes to the log."""
        recovery, failures = self._shards.recovery(), self._shards.failures()
        state = self._state = State(
            self._placements.count, recovery.partitions_count, recovery.recovering_count, tuple(sorted(failures))
        )
        failed = frozenset(failures)
        for partition, reason in sorted(failed - self._failed):
            _log.error("partition %s is closed: %s", partition, reason)
        for partition, _ in sorted(self._failed - failed):
            _log.info("partition %s is not closed any more", partition)
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
        """Look again and again, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_INTERVAL_SECONDS)
