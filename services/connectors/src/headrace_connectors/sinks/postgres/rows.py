"""Payloads as rows of a table of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from psycopg.types.json import Jsonb

from headrace_connectors.contract import InvalidRecord
from headrace_connectors.sinks import row_shape

_JSON: Final = ("json", "jsonb")


class RowShape(row_shape.RowShape):
    """Columns of a table, and where their values are in a payload.

    Args:
        table: Name of the table, for messages.
        types: Names of the types by column, as of the catalog.
        paths: Paths in the payload by column; empty: fields have the names of columns.
        ignores_unknown: True: fields that are no columns are left out; False: such a payload is invalid.
    """

    def __init__(
        self, table: str, types: Mapping[str, str], paths: Mapping[str, str], *, ignores_unknown: bool
    ) -> None:
        super().__init__(table, types, paths, ignores_unknown=ignores_unknown)
        self._types = types

    def _value(self, column: str, value: Any) -> Any:
        if self._types[column] in _JSON:
            return Jsonb(value)
        if isinstance(value, dict):
            raise InvalidRecord(f"{column} is an object, and the column has the type {self._types[column]}, not jsonb")
        return value
