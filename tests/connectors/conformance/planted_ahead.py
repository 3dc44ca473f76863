"""Sources that break one rule for sources that are polled ahead each: the rule is the docstring."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from headrace_connectors.contract import Batch, Record
from tests.connectors.conformance.good import GoodSource


class StandsStill(GoodSource):
    """polls_ahead_go_on"""

    async def poll_ahead(self) -> Batch | None:
        return await self.poll()


class NeverRewinds(GoodSource):
    """rewind_returns_what_is_not_committed"""

    async def rewind(self) -> None:
        """Stay."""


class RewindsByOne(GoodSource):
    """rewind_returns_what_is_not_committed"""

    async def rewind(self) -> None:
        positions = self.flight.clear()
        self._last = positions[-2] if len(positions) > 1 else self._last


class CommitsAll(GoodSource):
    """commit_of_a_batch_covers_those_before"""

    async def commit_batch(self, batch: Batch) -> None:
        self._last = self.flight.last or self._last
        self.flight.clear()


class CommitsOne(GoodSource):
    """commit_of_a_batch_covers_those_before"""

    async def commit_batch(self, batch: Batch) -> None:
        oldest = self.flight.positions[0]
        self.flight.committed(batch)
        self._last = oldest


class EagerAhead(GoodSource):
    """polls_ahead_destroy_nothing"""

    async def poll_ahead(self) -> Batch | None:
        batch = await super().poll_ahead()
        self._rows[:] = [row for row in self._rows if row > (self.flight.last or 0) - 2]
        return batch


class EagerCommit(GoodSource):
    """polls_ahead_destroy_nothing"""

    async def commit_batch(self, batch: Batch) -> None:
        await super().commit_batch(batch)
        self._rows.clear()


class EagerRewind(GoodSource):
    """polls_ahead_destroy_nothing"""

    async def rewind(self) -> None:
        await super().rewind()
        self._rows.clear()


class WaitsForThePoll(GoodSource):
    """batches_are_committed_while_a_poll_waits"""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.turn = asyncio.Lock()

    async def poll_ahead(self) -> Batch | None:
        async with self.turn:
            while True:
                if batch := await super().poll_ahead():
                    return batch

    async def commit_batch(self, batch: Batch) -> None:
        async with self.turn:
            await super().commit_batch(batch)


class LosesAheadAtCancellation(GoodSource):
    """cancelled_poll_ahead_loses_nothing"""

    async def poll_ahead(self) -> Batch | None:
        found = self._rows[:2]
        del self._rows[:2]
        await asyncio.sleep(0)
        return Batch([Record({"id": row}, id=row + 1) for row in found]) if found else None


PLANTED: Sequence[type[GoodSource]] = [kind for kind in GoodSource.__subclasses__() if kind.__module__ == __name__]
