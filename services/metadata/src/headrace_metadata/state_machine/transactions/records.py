"""Transactions and reader pins, the named records of a stream, and their look-ups."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from headrace_proto.metadata.v1 import ReaderPin, Transaction


def oldest_of(transactions: Collection[Transaction]) -> Transaction:
    """Return the least recently committed one of some transactions."""
    # The numbers are unique.
    return min(transactions, key=lambda transaction: transaction.number)


class Transactions:
    """Last committed transaction by name. Records are replaced and never changed in place.

    There are no deltas: only writers read transactions, by queries. The existence of streams is not tracked here.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._transactions: dict[int, dict[str, Transaction]] = {}
        self.count = 0

    def find(self, stream_id: int, name: str) -> Transaction | None:
        """Return the last transaction committed under a name; None if there is none."""
        return self._transactions.get(stream_id, {}).get(name)

    def count_of(self, stream_id: int) -> int:
        """Return the number of transactions of a stream."""
        return len(self._transactions.get(stream_id, {}))

    def oldest_of(self, stream_id: int) -> Transaction:
        """Return the least recently committed transaction of a stream that has some."""
        return oldest_of(self._transactions[stream_id].values())

    def of_owner(self, stream_id: int, user_id: int | None) -> list[Transaction]:
        """Return the transactions of a stream that belong to a user; none without a user."""
        transactions = self._transactions.get(stream_id, {}).values() if user_id is not None else ()
        return [one for one in transactions if one.HasField("owner_user_id") and one.owner_user_id == user_id]

    def transactions(self) -> Iterator[Transaction]:
        """Iterate over all transactions, ascending by stream id, then by name."""
        for stream_id in sorted(self._transactions):
            names = self._transactions[stream_id]
            yield from (names[name] for name in sorted(names))

    def put(self, transaction: Transaction) -> None:
        """Add a transaction to an existing stream, or replace the one with its name."""
        names = self._transactions.setdefault(transaction.stream_id, {})
        self.count += transaction.name not in names
        names[transaction.name] = transaction

    def remove(self, stream_id: int, name: str) -> None:
        """Remove a transaction, if it exists."""
        names = self._transactions.get(stream_id, {})
        if names.pop(name, None) is not None:
            self.count -= 1
            if not names:
                del self._transactions[stream_id]

    def remove_stream(self, stream_id: int) -> None:
        """Remove the transactions of a stream."""
        self.count -= len(self._transactions.pop(stream_id, {}))

    def copy(self) -> Transactions:
        """Return independent transactions with the same records."""
        other = Transactions()
        other._transactions = {stream_id: dict(names) for stream_id, names in self._transactions.items()}
        other.count = self.count
        return other


class Pins:
    """Pinned reader positions. As with transactions, there are no deltas, and streams are not tracked."""

    def __init__(self) -> None:
        """Start empty."""
        self._pins: dict[int, dict[str, ReaderPin]] = {}
        self.count = 0
        self.size_bytes = 0
        self._bytes_of_owner: dict[int, int] = {}

    def size_bytes_of(self, user_id: int) -> int:
        """Return the size of all values that belong to a user."""
        return self._bytes_of_owner.get(user_id, 0)

    def count_of_owner(self, stream_id: int, user_id: int) -> int:
        """Return the number of pinned readers of a stream that belong to a user."""
        pins = self._pins.get(stream_id, {}).values()
        return sum(pin.HasField("owner_user_id") and pin.owner_user_id == user_id for pin in pins)

    def find(self, stream_id: int, name: str) -> ReaderPin | None:
        """Return the pin of a reader; None if there is none."""
        return self._pins.get(stream_id, {}).get(name)

    def count_of(self, stream_id: int) -> int:
        """Return the number of pinned readers of a stream."""
        return len(self._pins.get(stream_id, {}))

    def pins(self) -> Iterator[ReaderPin]:
        """Iterate over all pins, ascending by stream id, then by name."""
        for stream_id in sorted(self._pins):
            names = self._pins[stream_id]
            yield from (names[name] for name in sorted(names))

    def add(self, pin: ReaderPin) -> None:
        """Add a pin for a reader of an existing stream without one."""
        self._pins.setdefault(pin.stream_id, {})[pin.name] = pin
        self.count += 1
        self.size_bytes += len(pin.value)
        self._count_bytes(pin, len(pin.value))

    def remove(self, stream_id: int, name: str) -> None:
        """Remove the pin of a reader, if any."""
        names = self._pins.get(stream_id, {})
        pin = names.pop(name, None)
        if pin is not None:
            self.count -= 1
            self.size_bytes -= len(pin.value)
            self._count_bytes(pin, -len(pin.value))
            if not names:
                del self._pins[stream_id]

    def remove_stream(self, stream_id: int) -> None:
        """Remove the pins of a stream."""
        for name in sorted(self._pins.get(stream_id, {})):
            self.remove(stream_id, name)

    def copy(self) -> Pins:
        """Return independent pins with the same records."""
        other = Pins()
        other._pins = {stream_id: dict(names) for stream_id, names in self._pins.items()}
        other.count, other.size_bytes = self.count, self.size_bytes
        other._bytes_of_owner = dict(self._bytes_of_owner)
        return other

    def _count_bytes(self, pin: ReaderPin, change: int) -> None:
        if pin.HasField("owner_user_id"):
            left = self._bytes_of_owner.get(pin.owner_user_id, 0) + change
            if left:
                self._bytes_of_owner[pin.owner_user_id] = left
            else:
                self._bytes_of_owner.pop(pin.owner_user_id, None)
