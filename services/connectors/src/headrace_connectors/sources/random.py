"""The source `random`: made-up orders, for trying things out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

from headrace_connectors.contract import (
    Batch,
    InFlight,
    Polling,
    Record,
    Settings,
    Source,
    decode_state,
    encode_state,
    stable_id,
)
from headrace_settings import Between, Duration

_STATE_VERSION: Final = 1
_FIELDS: Final = ("id", "ware", "count", "cents", "at")
_WARES: Final = ("tea", "milk", "bread", "apples", "cheese", "honey")


class RandomSettings(Settings):
    """`settings` of the source `random`."""

    interval: Duration = Duration.parse("1 s")
    """Time between two batches."""
    batch_size: Annotated[int, Between(1, 100_000)] = 10
    """Records of a batch."""
    count: Annotated[int, Between(0, 2**63)] = 0
    """Records in all, over all runs; 0: without end."""
    seed: int = 1
    """The same seed gives the same records, times excepted."""


class RandomSource(Source):
    """Makes orders up. It continues with the next number after a restart."""

    settings_type: ClassVar[type[Settings]] = RandomSettings

    def __init__(self, settings: RandomSettings) -> None:
        """Start with the first order."""
        self._settings = settings
        self._next = 0
        self._flight = InFlight[int]()

    def mode(self) -> Polling:
        """Records can be made again."""
        return Polling(destructive=False)

    async def open(self, state: bytes | None) -> None:
        """Continue after the last order."""
        if state is not None:
            self._next = decode_state(state, _STATE_VERSION, int)

    async def poll(self) -> Batch | None:
        """Return the orders after the last commit."""
        await self.rewind()
        return await self.poll_ahead()

    @classmethod
    def record_fields(cls, settings: Any) -> Sequence[str]:
        """Return the fields of an order."""
        del settings
        return _FIELDS

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        """Return None: orders can always be made."""
        del settings
        return None

    async def poll_ahead(self) -> Batch | None:
        """Return the next orders."""
        await asyncio.sleep(self._settings.interval.seconds)
        begin = self._next if self._flight.last is None else self._flight.last
        end = begin + self._settings.batch_size
        if self._settings.count:
            end = min(end, self._settings.count)
        if end == begin:
            return None
        batch = Batch([self._order(number) for number in range(begin, end)], encode_state(_STATE_VERSION, end))
        self._flight.add(batch, end)
        return batch

    def _order(self, number: int) -> Record:
        draw = random.Random(f"{self._settings.seed}/{number}")  # noqa: S311 - sample data
        return Record(
            {
                "id": number,
                "ware": draw.choice(_WARES),
                "count": draw.randrange(1, 10),
                "cents": draw.randrange(100, 10_000),
                "at": datetime.now(UTC),
            },
            id=stable_id("random", self._settings.seed, number),
        )

    async def commit(self) -> None:
        """Go on after these orders."""
        if committed := self._flight.clear():
            self._next = committed[-1]

    async def commit_batch(self, batch: Batch) -> None:
        """Go on after these orders."""
        if committed := self._flight.committed(batch):
            self._next = committed[-1]

    async def rewind(self) -> None:
        """Make the orders after the last commit again."""
        self._flight.clear()
