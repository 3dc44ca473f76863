"""Storage of the records of a batch, and then of the state of its source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from headrace_connectors.contract import Batch, Record, Unavailable


class InDoubt(Unavailable):
    """The outcome is not known: the same batch has to be settled before anything else is read."""

    code = "in_doubt"


class Storing(Protocol):
    """Storage in two steps: `send` may go on for several batches at a time, `settle` follows in their order."""

    @property
    def state(self) -> bytes | None:
        """State behind the last batch that counts."""

    async def recover(self) -> bytes | None:
        """Find out what an earlier run has stored; return the state to continue after.

        Raises:
            Unavailable: The server does not answer.
            ConnectorError: It cannot be found out, or another runtime writes for this source.
        """

    async def send(self, batch: Batch) -> Any:
        """Send the records of a batch; return what `settle` needs.

        Raises:
            Unavailable: At least one destination failed; nothing of the batch counts as stored.
            ConnectorError: Records are invalid or not admitted, and may not be dropped.
        """

    async def settle(self, batch: Batch, sent: Any) -> int:
        """Make a batch that was sent count, with its state; return the number of its records.

        Raises:
            InDoubt: It is to be called again for this batch.
            Unavailable: Nothing of the batch counts.
            ConnectorError: The connector cannot go on.
            OSError: The state cannot be stored.
        """

    async def discard(self, sent: Any) -> None:
        """Drop what was sent and not settled."""

    async def give_up_held(self) -> bool:
        """Drop what was settled without a state; return whether there was any, so that it has to be read again."""

    async def rest(self) -> None:
        """Tidy up, while there are no records."""


class Deliver(Protocol):
    """Storage of records: `Delivery.deliver`."""

    async def deliver(self, records: Sequence[Record]) -> int:
        """Store records."""


class SaveState(Protocol):
    """Storage of a state."""

    def __call__(self, state: bytes) -> Awaitable[None]:
        """Save it."""


class AtLeastOnce:
    """Sends the records, then saves the state: records of a batch whose state was not saved are stored again.

    Args:
        delivery: Sends.
        save: Saves states.
        recover: Returns the state of the run before; None: there is none.
        begin_again: Called after a failure, when no batch is on its way any more.
    """

    def __init__(
        self,
        delivery: Deliver,
        save: SaveState,
        recover: Callable[[], Awaitable[bytes | None]],
        begin_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._delivery = delivery
        self._save = save
        self._recover = recover
        self._begin_again = begin_again
        self._state: bytes | None = None

    @property
    def state(self) -> bytes | None:
        """The saved state."""
        return self._state

    async def recover(self) -> bytes | None:
        """Return the saved state."""
        self._state = await self._recover()
        return self._state

    async def send(self, batch: Batch) -> int:
        """Store the records."""
        return await self._delivery.deliver(batch.records)

    async def settle(self, batch: Batch, sent: int) -> int:
        """Save the state."""
        if batch.state is not None:
            await self._save(batch.state)
            self._state = batch.state
        return sent

    async def discard(self, sent: int) -> None:
        """Leave the records where they are: they are sent once more."""

    async def give_up_held(self) -> bool:
        """Return False: no records are held."""
        self._begin_again()
        return False

    async def rest(self) -> None:
        """Leave everything as it is saved."""
