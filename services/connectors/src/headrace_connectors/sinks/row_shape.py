"""Payloads as rows of a table, for sinks that write to databases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from headrace_connectors.contract import InvalidRecord
from headrace_connectors.routing.paths import MISSING, parse_path, value_at


class RowShape(ABC):
    """Columns of a table, and where their values are in a payload.

    Args:
        table: Name of the table, for messages.
        names: Names of the columns.
        paths: Paths in the payload by column; empty: fields have the names of columns.
        ignores_unknown: True: fields that are no columns are left out; False: such a payload is invalid.
    """

    def __init__(self, table: str, names: Collection[str], paths: Mapping[str, str], *, ignores_unknown: bool) -> None:
        self._table = table
        self._names = names
        self._paths = {column: parse_path(path) for column, path in paths.items()}
        self._ignores_unknown = ignores_unknown

    def has(self, name: str) -> bool:
        """Return True if the table has this column."""
        return name in self._names

    def row(self, payload: Any) -> dict[str, Any]:
        """Return values by column; columns without a value are left to their defaults.

        Raises:
            InvalidRecord: The payload is not an object, or has fields that are no columns, or none that is one.
        """
        if not isinstance(payload, dict):
            raise InvalidRecord(f"the payload is a {type(payload).__name__}; a row needs an object with fields")
        if self._paths:
            found = {column: value_at(payload, path) for column, path in self._paths.items()}
            values = {column: value for column, value in found.items() if value is not MISSING}
        else:
            unknown = [name for name in payload if name not in self._names]
            if unknown and not self._ignores_unknown:
                raise InvalidRecord(
                    f"{', '.join(unknown)}: no columns of {self._table}; add them, map columns, or set ignore_unknown"
                )
            values = {name: value for name, value in payload.items() if name in self._names}
        if not values:
            raise InvalidRecord(f"the payload has no value for a column of {self._table}")
        return {column: None if value is None else self._value(column, value) for column, value in values.items()}

    @abstractmethod
    def _value(self, column: str, value: Any) -> Any:
        """Return a value as the database takes it.

        Raises:
            InvalidRecord: The column cannot hold it.
        """
