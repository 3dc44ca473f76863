"""Changes of rows, whichever output plugin of PostgreSQL wrote them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Row = dict[str, Any]
Operation = Literal["insert", "update", "delete", "truncate"]


class Change(NamedTuple):
    """A change of one row."""

    operation: Operation
    table: str
    """Schema and name, as ``schema.table``."""
    row: Row | None
    """The row after the change; None for a deletion. Large values that did not change are missing in it."""
    old: Row | None
    """Row before the change, as far as the log has it: the key, or all of it with ``REPLICA IDENTITY FULL``."""


class Transaction(NamedTuple):
    """The changes of one transaction, which count only together."""

    xid: int
    end_lsn: int
    """Position after its commit. Transactions come in the order of their commits, and so do these positions; the
    positions of single changes do not, as transactions overlap.
    """
    changes: list[Change]
    lsn: int
    """Position that names it: of its commit, or after it, as the output plugin has it."""
    first: int = 0
    """Number of the first of `changes` among all changes of the transaction."""


def parse_lsn(text: str) -> int:
    """Return a log position from ``16/B374D848``.

    Examples:
        >>> parse_lsn("1/0")
        4294967296
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def print_lsn(lsn: int) -> str:
    """Return a log position as PostgreSQL writes it.

    Examples:
        >>> print_lsn(4294967296)
        '1/0'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def replacement(tables: str) -> str:
    """Return the text of the error that other tables have the names of those that are read."""
    return (
        f"another table has the name {tables} now: the one whose changes are stored was dropped or renamed, and rows "
        "of the other one may not have been read. Remove the state deliberately to start over with a snapshot"
    )


class MalformedChange(ValueError):
    """The output of PostgreSQL has another form than this release knows."""
