"""Rows of a copy whose new key is taken: keys that move within one transaction.

PostgreSQL looks at a deferrable key when a statement or a transaction ends. Until then several rows have the same key,
and the log has them in this order: a row comes to a key before the one there leaves it. In a copy it waits meanwhile.
"""

from __future__ import annotations

from typing import Any, Final, Self

from headrace_connectors.contract import ConnectorError

Row = dict[str, str | None]
"""Values as text: PostgreSQL reads them as the types of the columns."""
Key = tuple[str | None, ...]
Spot = tuple[str, Key]
"""A key of a table of the copy."""

_REMEMBERED_MAX: Final = 1_000_000
_STORED_MAX: Final = 10_000
"""Number of ids that are stored for the next process."""
_WAITING_MAX: Final = 100_000


class Moves:
    """State of the transaction whose changes come now, in one partition.

    Changes are prepared, and may be undone if the database refuses one of them: `draft` has what they change.

    Args:
        transaction: Position and id of the transaction, as messages have them; None: rows of a snapshot, which are
            not in any.
        waiting: Rows that wait for their key.
        remembers: False: its first messages are not known. Where some were left out and others done again, rows would
            be as none of them says: all are done again then.
    """

    def __init__(
        self, transaction: Any = None, waiting: dict[Spot, list[Row]] | None = None, *, remembers: bool = True
    ) -> None:
        self.transaction = transaction
        self.remembers = remembers
        self.waiting = waiting or {}
        # Offsets of its messages by their ids.
        self.ids: dict[int, int] = {}
        self.has_moved = False
        """True if a row has moved: the ids are needed by the next process, too."""
        self.inserted: dict[Spot, Row | None] = {}
        self.base: Moves | None = None

    def draft(self) -> Moves:
        """Return what can be changed and given up."""
        made = Moves(self.transaction, {spot: rows[:] for spot, rows in self.waiting.items()})
        made.base = self
        made.has_moved, made.remembers = self.has_moved, self.remembers
        return made

    def adopt(self) -> Moves:
        """Return what is known when the changes of a draft are done."""
        base = self.base
        if base is None:
            return self
        base.waiting = self.waiting
        base.has_moved, base.remembers = self.has_moved, self.remembers
        if len(base.ids) > _REMEMBERED_MAX:
            base.ids.clear()
            base.remembers = False
        if len(base.inserted) > _REMEMBERED_MAX:
            base.inserted.clear()
        base.ids |= self.ids
        base.inserted |= self.inserted
        return base

    # ---- messages that come again

    def is_repeated(self, message_id: int, offset: int) -> bool:
        """Return True if the transaction has had this change: it is done, and what followed it is done, too."""
        if message_id == 0 or self.transaction is None or not self.remembers:
            return False
        known = self.ids.get(message_id)
        if known is None and self.base is not None:
            known = self.base.ids.get(message_id)
        if known is None:
            self.ids[message_id] = offset
        # A transform may make several changes of one message.
        return known is not None and known != offset

    # ---- rows that wait

    def wait(self, spot: Spot, row: Row) -> None:
        """Let a row wait until the one at its key has left.

        Raises:
            ConnectorError: Too many rows wait.
        """
        if len(self.waiting) >= _WAITING_MAX:
            raise ConnectorError(
                f"{spot[0]}: more than {_WAITING_MAX} rows of a transaction wait for keys that other rows of it have; "
                "start over with a snapshot"
            )
        self.waiting.setdefault(spot, []).append(row)

    def taken(self, spot: Spot, old: Row | None) -> Row | None:
        """Take the row that waits for a key and has the old values of a change; None: there is no such row."""
        rows = self.waiting.get(spot, [])
        for number, row in enumerate(rows):
            if old is None or _agree(row, old):
                del rows[number]
                if not rows:
                    del self.waiting[spot]
                return row
        return None

    def next(self, spot: Spot) -> Row | None:
        """Take the row that has waited for a key the longest."""
        return self.taken(spot, None)

    def truncate(self, table: str) -> None:
        """Forget the rows of a table."""
        self.waiting = {spot: rows for spot, rows in self.waiting.items() if spot[0] != table}
        base = {} if self.base is None else self.base.inserted
        self.inserted |= {spot: None for spot in {*base, *self.inserted} if spot[0] == table}

    # ---- rows that came to a key, which another one may have still

    def holds_other(self, spot: Spot, row: Row) -> bool:
        """Return True if another row came to a key within this transaction, and is there still."""
        known = self.ids or (self.base is not None and self.base.ids)
        held = self._held(spot) if self.remembers and known else None
        return held is not None and held != row

    def _held(self, spot: Spot) -> Row | None:
        if spot in self.inserted or self.base is None:
            return self.inserted.get(spot)
        return self.base.inserted.get(spot)

    def insert(self, spot: Spot, row: Row | None) -> None:
        """Note a row that came to a key, whatever had it; None: the row there has left."""
        if self.transaction is not None:
            self.inserted[spot] = row

    def is_of_other(self, spot: Spot, old: Row | None, new: Row | None) -> bool:
        """Return True if a change is of a row in whose place another one was inserted.

        Args:
            spot: The key.
            old: Old values of the change, as far as it has them.
            new: Values after the change; None: the row leaves the key.
        """
        row = self._held(spot)
        if row is None:
            return False
        if old is not None and old.keys() >= row.keys() and not _agree(row, old):
            return True
        self.inserted[spot] = new
        return False

    # ---- storing

    def stored(self) -> dict[str, Any] | None:
        """Return what has to be stored with the offsets; None: nothing waits, and nothing has moved."""
        is_stored = self.has_moved and self.remembers and len(self.ids) <= _STORED_MAX
        ids = list(self.ids.items()) if is_stored else []
        if not self.waiting and not ids:
            return None
        rows = [[table, key, row] for (table, key), waiting in self.waiting.items() for row in waiting]
        return {"transaction": self.transaction, "rows": rows, "ids": ids}

    @classmethod
    def restored(cls, stored: dict[str, Any] | None) -> Self:
        """Return what was stored."""
        if stored is None:
            return cls(remembers=False)
        waiting: dict[Spot, list[Row]] = {}
        for table, key, row in stored["rows"]:
            waiting.setdefault((table, tuple(key)), []).append(row)
        restored = cls(stored["transaction"], waiting)
        restored.ids = dict(stored["ids"])
        restored.has_moved = restored.remembers = bool(restored.ids)
        return restored


def _agree(row: Row, old: Row) -> bool:
    return all(row[name] == value for name, value in old.items() if name in row)
