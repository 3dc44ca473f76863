"""Orders, and the table in which each of them is billed once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, Self

import msgspec

STREAM: Final = "shop"
TOPIC: Final = "orders"
DEAD_LETTERS: Final = "orders-dead"
DATABASE: Final = Path("orders.db")
"""File of the table, in the working directory."""

_LOCK_SECONDS: Final = 1.0
"""Time that SQLite waits for the lock of another program before it reports a failure."""
_SCHEMA: Final = """
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS prices (article TEXT PRIMARY KEY, cents INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (
        number INTEGER PRIMARY KEY, customer TEXT NOT NULL, article TEXT NOT NULL, cents INTEGER NOT NULL
    );
"""


class Order(msgspec.Struct, frozen=True):
    """One order, as JSON in a message."""

    number: int
    """Unique number, given by the shop."""
    customer: str
    article: str
    count: Annotated[int, msgspec.Meta(ge=1)]


class UnknownArticle(Exception):
    """The price list does not have the article."""


def parse(payload: bytes) -> Order:
    """Read an order.

    Raises:
        msgspec.DecodeError: It is not JSON.
        msgspec.ValidationError: It is no order; the text says which field is wrong.
    """
    return msgspec.json.decode(payload, type=Order)


class Billing:
    """The price list and the billed orders, in SQLite. Several programs can use the file at a time."""

    def __init__(self, path: Path = DATABASE) -> None:
        """Open the file; create it if it does not exist.

        Raises:
            sqlite3.Error: It cannot be opened.
        """
        self._database = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
        self._database.executescript(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._database.close()

    def set_price(self, article: str, cents: int) -> None:
        """Set the price of an article, in cents."""
        self._database.execute("INSERT OR REPLACE INTO prices VALUES (?, ?)", (article, cents))

    def cents_of(self, order: Order) -> int:
        """Return what an order costs, in cents.

        Raises:
            UnknownArticle: The article has no price.
        """
        row = self._database.execute("SELECT cents FROM prices WHERE article = ?", (order.article,)).fetchone()
        if row is None:
            raise UnknownArticle(f"article {order.article!r} is not in the price list")
        return int(row[0]) * order.count

    def add(self, orders: Iterable[tuple[Order, int]]) -> None:
        """Bill orders, each with its cents, in one transaction. An order that is there already is not billed again.

        Raises:
            sqlite3.OperationalError: Another program has locked the file for too long. Nothing was written.
        """
        rows = [(order.number, order.customer, order.article, cents) for order, cents in orders]
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._database.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?)", rows)
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise

    def is_billed(self, order: Order) -> bool:
        """Return whether an order is in the table."""
        found = self._database.execute("SELECT 1 FROM orders WHERE number = ?", (order.number,)).fetchone()
        return found is not None

    def totals(self) -> list[tuple[str, int, int]]:
        """Return number of orders and sum in cents by customer; the last row, `total`, is that of all."""
        select = "count(*), coalesce(sum(cents), 0) FROM orders"
        rows = self._database.execute(f"SELECT customer, {select} GROUP BY customer ORDER BY customer").fetchall()
        return [*rows, ("total", *self._database.execute(f"SELECT {select}").fetchone())]
