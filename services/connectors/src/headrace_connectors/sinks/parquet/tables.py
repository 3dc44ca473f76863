"""Tables that the messages of one sink go to, chosen by a field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

import pyarrow as pa
from pydantic import AfterValidator, Field, model_validator

from headrace_connectors.contract import InvalidRecord, Place, Received, Settings
from headrace_connectors.routing.paths import MISSING, ReadPath, parse_path, value_at
from headrace_connectors.sinks.parquet.columns import TableShape
from headrace_connectors.sinks.parquet.values import ColumnType

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_TABLES_MAX: Final = 500
"""Less than the files of a part of a manifest: a message that was split may begin a file in each table."""


def is_table_name(name: str) -> bool:
    """Return whether a name is a segment of a path, and none that readers of tables leave out."""
    return _NAME.fullmatch(name) is not None


def _table_name(name: str) -> str:
    if not is_table_name(name):
        raise ValueError(
            f"{name!r} is no name of a table: it is a directory, and has up to 200 letters, digits, dots, hyphens and "
            "underscores after a letter or digit"
        )
    return name


_TableName = Annotated[str, AfterValidator(_table_name)]


class TablesSettings(Settings):
    """Columns and tables in the `settings` of a sink."""

    path: str | Path
    """Place of the table, or of the directories of tables."""
    columns: Mapping[ReadPath, ColumnType] = Field(default_factory=dict)
    """Type of a column by its path in the payload, such as `{ id = "int64", "customer.name" = "string" }`; empty: one
    column `payload` with JSON. The columns `_offset`, `_timestamp` and `_key` are always there.
    """
    table_field: ReadPath | None = None
    """Path of the field with the name of the table: one of `tables`. Each table is a directory of this name below
    `path`.
    """
    tables: Annotated[tuple[_TableName, ...], Field(max_length=_TABLES_MAX)] = ()
    """Tables that `table_field` may name. A message that names another one is invalid."""
    table: _TableName | None = None
    """Table of messages without `table_field`; they are invalid if it is not set."""
    table_columns: Mapping[_TableName, Mapping[ReadPath, ColumnType]] = Field(default_factory=dict)
    """Columns of some of the tables in place of `columns`, such as `{ returns = { id = "int64", why = "string" } }`."""

    @property
    def table_names(self) -> tuple[str, ...]:
        """Tables that messages can go to; empty: `path` itself is the only one."""
        return tuple(dict.fromkeys((*self.tables, *(() if self.table is None else (self.table,)))))

    @model_validator(mode="after")
    def _tables_are_chosen(self) -> Self:
        if self.table_field is None:
            if self.table_names or self.table_columns:
                raise ValueError("tables, table and table_columns belong to table_field: set it")
            return self
        if not self.tables:
            raise ValueError("table_field and tables belong together: set both")
        folded = [name.lower() for name in self.table_names]
        if twice := sorted({name for name in folded if folded.count(name) > 1}):
            # They are one directory in some file systems.
            raise ValueError(f"the tables {', '.join(twice)} are named in capitals and without: choose other names")
        if unknown := sorted(set(self.table_columns) - set(self.table_names)):
            raise ValueError(f"table_columns names {', '.join(unknown)}, which is not one of tables")
        return self


class Target(NamedTuple):
    """Messages of one partition for one table."""

    place: Place
    table: str | None
    """None: the sink has one table."""


class Tables:
    """Messages as columns, divided by partition and table.

    Args:
        settings: Columns and tables.
    """

    def __init__(self, settings: TablesSettings) -> None:
        self._names = frozenset(settings.table_names)
        self._field = settings.table_field
        self._path = None if settings.table_field is None else parse_path(settings.table_field)
        self._default = settings.table
        shapes: Iterable[str | None] = self._names or (None,)
        columns = settings.table_columns
        self.shapes = {name: TableShape(columns.get(name or "", settings.columns)) for name in shapes}

    def divided(self, messages: Sequence[Received]) -> dict[Target, pa.Table]:
        """Return the rows of messages, each partition's in its order.

        Raises:
            InvalidRecord: A message names no table, or a value does not fit its column.
        """
        found: dict[Target, list[int]] = {}
        for index, message in enumerate(messages):
            found.setdefault(Target(message.place, self._table_of(message, index)), []).append(index)
        return {target: self._rows(target, messages, indexes) for target, indexes in found.items()}

    def _rows(self, target: Target, messages: Sequence[Received], indexes: Sequence[int]) -> pa.Table:
        try:
            return self.shapes[target.table].table([messages[index] for index in indexes])
        except InvalidRecord as error:
            place = None if error.index is None else indexes[error.index]
            raise InvalidRecord(str(error), index=place) from error

    def _table_of(self, message: Received, index: int) -> str | None:
        if self._path is None:
            return None
        value = value_at(message.record.payload, self._path)
        if value is MISSING or value is None:
            if self._default is None:
                raise InvalidRecord(f"there is no {self._field}, and settings.table is not set", index=index)
            return self._default
        if not isinstance(value, str) or value not in self._names:
            raise InvalidRecord(f"{self._field} is {value!r}, and not one of settings.tables", index=index)
        return value
