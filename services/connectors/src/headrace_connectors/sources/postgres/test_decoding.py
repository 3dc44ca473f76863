"""Output of the plugin ``test_decoding``, which every PostgreSQL has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from headrace_connectors.sources.postgres.changes import Change, MalformedChange, Operation, Row, Transaction
from headrace_connectors.sources.postgres.values import of_type_name

_IDENTIFIER: Final = r'"(?:[^"]|"")*"|[^\s".,:\[\]]+'
_TABLE: Final = re.compile(rf"table ({_IDENTIFIER})\.({_IDENTIFIER}): (INSERT|UPDATE|DELETE|TRUNCATE):")
_TRUNCATED: Final = re.compile(rf"({_IDENTIFIER})\.({_IDENTIFIER})")
# A type can contain brackets: `tags[text[]]:'{a}'`.
_COLUMN: Final = re.compile(rf"\s+({_IDENTIFIER})\[((?:[^\[\]]|\[\])+)\]:")
_VALUE: Final = re.compile(r"'((?:[^']|'')*)'|B'([01]*)'|([^\s']+)")
_OLD: Final = " old-key:"
_NEW: Final = " new-tuple:"
_NO_DATA: Final = " (no-tuple-data)"
_UNCHANGED: Final = "unchanged-toast-datum"
_OPERATIONS: Final[dict[str, Operation]] = {
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "TRUNCATE": "truncate",
}


def transactions(lines: Iterable[tuple[int, int, str]], whole: Collection[str] = frozenset()) -> Iterable[Transaction]:
    """Group the lines of ``pg_logical_slot_peek_changes`` by transaction.

    Args:
        lines: Log position, transaction id and text of each.
        whole: Tables whose old rows have all columns, of which those without a value are not written.

    Raises:
        MalformedChange: A line cannot be understood.
    """
    changes: list[Change] = []
    for lsn, xid, text in lines:
        if text.startswith("table "):
            changes += [_completed(change) if change.table in whole else change for change in parse_change(text)]
        elif text.startswith("BEGIN"):
            changes = []
        elif text.startswith("COMMIT"):
            yield Transaction(xid, lsn, changes, lsn)
            changes = []


def _completed(change: Change) -> Change:
    if change.row is None or change.old is None:
        return change
    return change._replace(old=dict.fromkeys(change.row) | change.old)


def parse_change(text: str) -> list[Change]:
    """Return the changes of a line.

    Raises:
        MalformedChange: The line cannot be understood.
    """
    if text.startswith("table ") and text.endswith((": TRUNCATE: (no-flags)", "restart_seqs", "cascade")):
        names = text.removeprefix("table ").partition(": TRUNCATE:")[0]
        return [
            Change("truncate", f"{_name(found[1])}.{_name(found[2])}", None, None)
            for found in _TRUNCATED.finditer(names)
        ]
    table = _TABLE.match(text)
    if table is None:
        raise MalformedChange(f"{text[:200]!r} is not a line of test_decoding")
    name, operation = f"{_name(table[1])}.{_name(table[2])}", _OPERATIONS[table[3]]
    rest, position = text, table.end()
    if rest.startswith(_NO_DATA, position):
        return [Change(operation, name, None, None)]
    old = None
    if rest.startswith(_OLD, position):
        old, position = _row(rest, position + len(_OLD))
        if not rest.startswith(_NEW, position):
            raise MalformedChange(f"{text[:200]!r} has an old key without a new row")
        position += len(_NEW)
    row, position = _row(rest, position)
    if position != len(rest):
        raise MalformedChange(f"{text[:200]!r} cannot be understood from character {position} on")
    return [Change("delete", name, None, row)] if operation == "delete" else [Change(operation, name, row, old)]


def _row(text: str, position: int) -> tuple[Row, int]:
    row: Row = {}
    while column := _COLUMN.match(text, position):
        value = _VALUE.match(text, column.end())
        if value is None:
            raise MalformedChange(f"{text[:200]!r} has no value for the column {column[1]}")
        position = value.end()
        if value[3] != _UNCHANGED:
            row[_name(column[1])] = _value(value, column[2])
    return row, position


def _value(value: re.Match[str], type_name: str) -> Any:
    if value[1] is not None:
        return of_type_name(value[1].replace("''", "'"), type_name)
    if value[2] is not None:
        return value[2]
    return None if value[3] == "null" else of_type_name(value[3], type_name)


def _name(identifier: str) -> str:
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier
