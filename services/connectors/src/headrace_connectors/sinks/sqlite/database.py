"""A database of SQLite in a thread of its own, with the offsets in it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from headrace_connectors.contract import ConnectorError, Place, Unavailable

Value = TypeVar("Value")
_PASSING: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_CREATE: Final = """CREATE TABLE IF NOT EXISTS {table} (
    sink TEXT NOT NULL, stream TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL, PRIMARY KEY (sink, stream, topic, partition)
)"""
_READ: Final = "SELECT next_offset FROM {table} WHERE sink = ? AND stream = ? AND topic = ? AND partition = ?"
_STORE: Final = """INSERT INTO {table} (sink, stream, topic, partition, next_offset) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET next_offset = max(next_offset, excluded.next_offset)"""


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Translate failures within a ``with`` block.

    Args:
        what: Work that is done, for the message.

    Raises:
        Unavailable: The database is locked, or its disk is full or fails; the same call may succeed later.
        ConnectorError: It will not.
    """
    try:
        yield
    except sqlite3.Error as error:
        # Extended codes have the code itself in their lower byte.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        kind = Unavailable if code in _PASSING else ConnectorError
        raise kind(f"SQLite, {what}: {error}") from error


class Database:
    """A connection that one thread uses. Its calls follow each other in their order, also after one was cancelled.

    Args:
        path: The file.
        busy_seconds: Time to wait for other writers of the file.
    """

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[sqlite3.Connection], Value]) -> Value:
        """Run something with the connection, which is made if there is none. Raises as `failures`, and as the work."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-sink")
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._connected()))

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if not self._path.exists():
                raise ConnectorError(
                    f"there is no database {self._path}: create it with its table, or correct settings.path"
                )
            with failures(f"opening {self._path}"):
                # Without `mode=rw` a wrong path would make a new file.
                self._connection = sqlite3.connect(
                    f"file:{quote(str(self._path))}?mode=rw",
                    uri=True,
                    timeout=self._busy_seconds,
                    isolation_level=None,
                    check_same_thread=False,
                )
                self._connection.execute("PRAGMA synchronous = FULL")
        return self._connection

    def roll_back(self) -> None:
        """Undo the open transaction, after the call that runs, without waiting for either."""
        if self._thread is not None:
            self._thread.submit(self._rolled_back)

    def _rolled_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.rollback()

    async def close(self) -> None:
        """Undo the open transaction, and close the connection after the call that runs."""
        thread = self._thread
        if thread is not None:
            closing = asyncio.get_running_loop().run_in_executor(thread, self._closed)
            # A call that was cancelled is complete, too, when this one is.
            await asyncio.shield(closing)
            thread.shutdown(wait=False)
            self._thread = None

    def _closed(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Offsets:
    """The offset to continue at of each partition, in a table of the same file.

    Args:
        table: Name of the table.
        sink: Name under which they are stored.
    """

    def __init__(self, table: str, sink: str) -> None:
        self._table = quoted(table)
        self._sink = sink

    def create(self, connection: sqlite3.Connection) -> None:
        """Create the table, if it does not exist."""
        connection.execute(_CREATE.format(table=self._table))

    def stored(self, connection: sqlite3.Connection, places: Sequence[Place]) -> dict[Place, int]:
        """Return the offsets that are stored."""
        found = {}
        for place in places:
            row = connection.execute(_READ.format(table=self._table), (self._sink, *place)).fetchone()
            if row is not None:
                found[place] = int(row[0])
        return found

    def store(self, connection: sqlite3.Connection, positions: Mapping[Place, int]) -> None:
        """Store offsets; they never move back."""
        rows = [(self._sink, *place, offset) for place, offset in positions.items()]
        connection.executemany(_STORE.format(table=self._table), rows)
