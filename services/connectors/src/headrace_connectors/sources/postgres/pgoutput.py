"""Messages of the plugin ``pgoutput``, version 1 of its protocol.

The layout is in PostgreSQL's manual under "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Self

from headrace_connectors.contract import ConnectorError
from headrace_connectors.sources.postgres.changes import Change, MalformedChange, Row, Transaction, replacement
from headrace_connectors.sources.postgres.values import of_oid

_BEGIN: Final = struct.Struct(">QqI")
_COMMIT: Final = struct.Struct(">BQQq")
_U32: Final = struct.Struct(">I")
_U16: Final = struct.Struct(">H")
_ROWS: Final = (b"I", b"U", b"D")


class Begin(NamedTuple):
    """Begin of a transaction."""

    xid: int
    commit_lsn: int

    @classmethod
    def of(cls, message: bytes) -> Self:
        """Decode it. Raises `struct.error`."""
        commit_lsn, _, xid = _BEGIN.unpack_from(message, 1)
        return cls(xid, commit_lsn)


def end_of_commit(message: bytes) -> int:
    """Return the position after a transaction, from its commit. Raises `struct.error`."""
    _, _, end_lsn, _ = _COMMIT.unpack_from(message, 1)
    return int(end_lsn)


def changes_count(message: bytes) -> int:
    """Return the number of changes in a message, which is not decoded. Raises `struct.error`."""
    kind = message[:1]
    if kind == b"T":
        (count,) = _U32.unpack_from(message, 1)
        return int(count)
    return 1 if kind in _ROWS else 0


class Relation(NamedTuple):
    """Description of a table."""

    table: str
    columns: list[tuple[str, int]]
    """Name and type of each."""


Relations = dict[int, Relation]


class Decoder:
    """Decodes messages in their order. It keeps the descriptions of tables, which come before their first change.

    Args:
        relations: Descriptions that came before.
        oids: Identifiers of the tables that are read, by name.
    """

    def __init__(self, relations: Relations | None = None, oids: Mapping[str, int] | None = None) -> None:
        self.relations = dict(relations or {})
        self._oids = oids or {}

    def transactions(self, messages: Iterable[bytes]) -> Iterator[Transaction]:
        """Group messages by transaction.

        Raises:
            MalformedChange: A message cannot be understood.
        """
        changes: list[Change] = []
        begin = Begin(0, 0)
        for message in messages:
            try:
                kind = message[:1]
                if kind == b"B":
                    begin, changes = Begin.of(message), []
                elif kind == b"C":
                    yield Transaction(begin.xid, end_of_commit(message), changes, begin.commit_lsn)
                    changes = []
                else:
                    changes += self.changes(message)
            except struct.error as error:
                raise _ends_early(message, error) from error

    def changes(self, message: bytes) -> list[Change]:
        """Return the changes of a message; none of one that describes a table, or says nothing about rows.

        Raises:
            MalformedChange: The message cannot be understood.
            ConnectorError: Another table has the name of one that is read, or this one has another name.
        """
        kind = message[:1]
        try:
            if kind == b"R":
                self._relation(_Reader(message, 1))
            elif kind == b"T" or kind in _ROWS:
                return self._changes(kind, _Reader(message, 1))
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise _ends_early(message, error) from error
        # Origins, types and messages of programs say nothing about rows.
        return []

    def _relation(self, reader: _Reader) -> None:
        oid = reader.u32()
        schema, name = reader.text(), reader.text()
        reader.skip(1)
        columns = []
        for _ in range(reader.u16()):
            reader.skip(1)
            column = reader.text()
            columns.append((column, reader.u32()))
            reader.skip(4)
        table = f"{schema or 'pg_catalog'}.{name}"
        if self._oids.get(table, oid) != oid:
            raise ConnectorError(replacement(table))
        if table not in self._oids:
            for known in (known for known, other in self._oids.items() if other == oid):
                raise ConnectorError(f"{known} is called {table}: changes of it have that name, and would be left out")
        self.relations[oid] = Relation(table, columns)

    def _changes(self, kind: bytes, reader: _Reader) -> list[Change]:
        if kind == b"T":
            count = reader.u32()
            reader.skip(1)
            return [Change("truncate", self._known(reader.u32()).table, None, None) for _ in range(count)]
        relation = self._known(reader.u32())
        part = reader.byte()
        old = None
        if part in b"KO":
            old = self._row(relation, reader, is_key=part == b"K")
            if kind == b"D":
                return [Change("delete", relation.table, None, old)]
            part = reader.byte()
        if part != b"N":
            raise MalformedChange(f"a change of {relation.table} has a part {part!r}")
        row = self._row(relation, reader, is_key=False)
        return [Change("insert" if kind == b"I" else "update", relation.table, row, old)]

    def _known(self, oid: int) -> Relation:
        relation = self.relations.get(oid)
        if relation is None:
            raise MalformedChange(f"a change names table {oid}, which was not described before")
        return relation

    def _row(self, relation: Relation, reader: _Reader, *, is_key: bool) -> Row:
        row: Row = {}
        count = reader.u16()
        if count != len(relation.columns):
            raise MalformedChange(f"a row of {relation.table} has {count} columns, not {len(relation.columns)}")
        for name, oid in relation.columns:
            kind = reader.byte()
            if kind == b"t":
                row[name] = of_oid(reader.sized().decode(), oid)
            elif kind == b"n":
                # In a key, columns outside it are null, whatever their value was.
                if not is_key:
                    row[name] = None
            elif kind != b"u":
                raise MalformedChange(f"column {name} of {relation.table} has the form {kind!r}")
        return row


def _ends_early(message: bytes, error: Exception) -> MalformedChange:
    return MalformedChange(f"a message {message[:1]!r} of pgoutput ends early: {error}")


class _Reader:
    __slots__ = ("_message", "_position")

    def __init__(self, message: bytes, position: int) -> None:
        self._message = message
        self._position = position

    def skip(self, count: int) -> None:
        self._position += count

    def byte(self) -> bytes:
        self._position += 1
        found = self._message[self._position - 1 : self._position]
        if not found:
            raise IndexError("no byte left")
        return found

    def u16(self) -> int:
        (value,) = _U16.unpack_from(self._message, self._position)
        self._position += _U16.size
        return int(value)

    def u32(self) -> int:
        (value,) = _U32.unpack_from(self._message, self._position)
        self._position += _U32.size
        return int(value)

    def text(self) -> str:
        end = self._message.find(b"\0", self._position)
        if end < 0:
            raise IndexError("a text has no end")
        found = self._message[self._position : end].decode()
        self._position = end + 1
        return found

    def sized(self) -> bytes:
        size = self.u32()
        found = self._message[self._position : self._position + size]
        if len(found) != size:
            raise IndexError("a value is cut off")
        self._position += size
        return found
