"""Payloads as rows of a table of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace_connectors.contract import InvalidRecord
from headrace_connectors.sinks import row_shape
from headrace_connectors.sinks.json_values import json_text

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
            # PostgreSQL reads the text as the type of the column.
            return json_text(column, value)
        if _has_object(value):
            found = "is" if isinstance(value, dict) else "contains"
            raise InvalidRecord(
                f"{column} {found} an object, and the column has the type {self._types[column]}, not jsonb"
            )
        return value


def _has_object(value: Any) -> bool:
    """Return True for an object, and for an array that contains one at any depth: the driver has no form for it."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            return True
        if isinstance(one, list | tuple):
            left += one
    return False
