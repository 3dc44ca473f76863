"""Sources of which several batches can be on their way to their topics."""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from headrace_connectors.contract.source import Batch

Position = TypeVar("Position")


@runtime_checkable
class Pipelined(Protocol):
    """A source that can be polled before the records of earlier polls are stored: `delivery.batches_in_flight`.

    With more than one batch in flight the runtime calls `poll_ahead` and `commit_batch` in place of `poll` and
    `commit`. Batches are committed in the order of their polls, and several of them at once by the last one. If one
    could not be stored, none behind it counts: the runtime calls `rewind`, and polls on.

    `commit_batch` may be called while a `poll_ahead` waits for records. All other calls come one at a time.
    """

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        """Return the reason why a source with these settings cannot be polled ahead, and the fix; None: it can."""

    async def poll_ahead(self) -> Batch | None:
        """Wait for the records after those of the poll before, and return them; None: there were none for a while.

        As `Source.poll` in everything else: it may be cancelled, and no record may be lost by that.
        """

    async def commit_batch(self, batch: Batch) -> None:
        """Do what has to follow now that a batch and all before it are stored, and the state is on disk.

        It may be called twice for a batch, and by a source that was opened anew for none that it knows.

        Args:
            batch: A batch as `poll_ahead` has returned it, the same object.
        """

    async def rewind(self) -> None:
        """Go back to the last committed batch: the next poll returns the records after it once more."""


class InFlight(Generic[Position]):
    """Batches that were polled and are not committed, with the position of the source behind each.

    Examples:
        >>> flight = InFlight[int]()
        >>> first, second = Batch([]), Batch([])
        >>> flight.add(first, 10)
        >>> flight.add(second, 20)
        >>> flight.last, flight.committed(first), flight.committed(first)
        (20, [10], [])
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[Batch, Position]] = deque()

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def last(self) -> Position | None:
        """Position behind the newest batch; None: there is none."""
        return self._batches[-1][1] if self._batches else None

    @property
    def positions(self) -> list[Position]:
        """Positions behind all batches, the oldest first."""
        return [position for _, position in self._batches]

    def add(self, batch: Batch, position: Position) -> None:
        """Note a batch that was polled."""
        self._batches.append((batch, position))

    def committed(self, batch: Batch) -> list[Position]:
        """Forget a batch and those before it; return their positions, the oldest first, and none if it is not here."""
        if not any(one is batch for one, _ in self._batches):
            return []
        positions = []
        while True:
            one, position = self._batches.popleft()
            positions.append(position)
            if one is batch:
                return positions

    def drop_oldest(self) -> None:
        """Forget the oldest batch, if there is one."""
        if self._batches:
            self._batches.popleft()

    def clear(self) -> list[Position]:
        """Forget all batches; return their positions."""
        positions = self.positions
        self._batches.clear()
        return positions
