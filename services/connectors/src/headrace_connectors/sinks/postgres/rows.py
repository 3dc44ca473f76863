"""Payloads as rows of a table of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace_connectors.sinks import row_shape
from headrace_connectors.sinks.postgres.values import bound


class RowShape(row_shape.RowShape):
    """Columns of a table, and where their values are in a payload.

    Args:
        table: Name of the table, for messages.
        kinds: Names of the types by column, as `Columns` has them.
        paths: Paths in the payload by column; empty: fields have the names of columns.
        ignores_unknown: True: fields that are no columns are left out; False: such a payload is invalid.
    """

    def __init__(
        self, table: str, kinds: Mapping[str, str], paths: Mapping[str, str], *, ignores_unknown: bool
    ) -> None:
        super().__init__(table, kinds, paths, ignores_unknown=ignores_unknown)
        self._kinds = kinds

    def _value(self, column: str, value: Any) -> Any:
        return bound(column, self._kinds[column], value)
