"""State of a source of changes, and the result of each way of reading."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

import msgspec

from headrace_connectors.sources.postgres.changes import Transaction, parse_lsn


class Visible(msgspec.Struct):
    """Transactions whose changes are in the snapshot."""

    xmin: int
    xmax: int
    running: list[int]
    until: str
    """Position after the commits of all of them."""

    def includes(self, xid: int, end_lsn: int) -> bool:
        """Return True if the changes of a transaction are in the snapshot."""
        if end_lsn > parse_lsn(self.until):
            return False
        # The log has the lower 32 bits of transaction ids; the snapshot has all 64.
        distance = (xid - self.xmax) & 0xFFFFFFFF
        xid = self.xmax + (distance - 0x100000000 if distance >= 0x80000000 else distance)
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


class Part(msgspec.Struct):
    """The first changes of a transaction that is too large for one batch."""

    lsn: str
    """Position of its commit."""
    changes_count: int
    """Number of its changes that are stored."""


class Published(msgspec.Struct):
    """Operations and tables that the publication lets out."""

    version: int
    """Major version of the server: `pg_upgrade` makes other entries."""
    operations: list[str]
    entries: dict[str, list[int]]
    """Identifiers of its entries by table. A table that is put back, or gets other columns or rows, has others."""


class State(msgspec.Struct):
    """State of the source."""

    lsn: str
    """End of the last transaction whose changes are stored."""
    snapshot: Literal["needed", "done"]
    visible: Visible | None = None
    part: Part | None = None
    tables: dict[str, int] | None = None
    """Identifiers of the tables by name; None: not known, as in states of earlier releases."""
    published: Published | None = None
    """Contents of the publication; None: not known, or there is none."""

    def covers(self, xid: int, end_lsn: int) -> bool:
        """Return True if a transaction is stored already, or is in the snapshot.

        Args:
            xid: Its id.
            end_lsn: Position after its commit, or one within the record of its commit.
        """
        return end_lsn <= parse_lsn(self.lsn) or (self.visible is not None and self.visible.includes(xid, end_lsn))


class Polled(NamedTuple):
    """Changes that follow each other."""

    transactions: list[Transaction]
    position: int
    """Position that the server may forget its log up to when they are stored; 0: as before."""
    part: Part | None = None
    """Set if the last transaction goes on in the next batch."""


class Changes(Protocol):
    """A way of reading changes, one batch at a time."""

    async def poll(self, state: State) -> Polled | None:
        """Return changes after a state; the same again until `advance`. None: there were none for a while."""

    async def advance(self, state: State, lsn: int, *, count: int = 1, waits: bool = False) -> None:
        """Let the server forget its log up to a position, and go on after the state.

        Args:
            state: State that is durable.
            lsn: The position; 0: the server keeps all that it has.
            count: Number of the results that end with the position.
            waits: True: return when the server has done it.
        """

    async def close(self) -> None:
        """Disconnect."""
