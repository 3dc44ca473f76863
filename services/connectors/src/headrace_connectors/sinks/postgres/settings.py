"""Settings of the sink `postgres`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from headrace_connectors.contract import Settings
from headrace_connectors.postgresql.address import DatabaseUrl
from headrace_connectors.postgresql.tables import table_name
from headrace_connectors.routing.paths import ReadPath


class PostgresSinkSettings(Settings):
    """`settings` of the sink `postgres`."""

    url: DatabaseUrl
    """Address, as `postgresql://user@host/database`."""
    table: Annotated[str, AfterValidator(table_name)] | None = None
    """Table that rows are written to, as `public.orders`. It has to exist. Not for `apply_changes`."""
    mode: Literal["insert", "upsert", "apply_changes"] = "insert"
    """Add a row for each message, replace the columns of the row with the same key, or do to tables what messages of
    `postgres_cdc` say: insert, update, delete and truncate.
    """
    tables: Mapping[Annotated[str, AfterValidator(table_name)], Annotated[str, AfterValidator(table_name)]] = Field(
        default_factory=dict
    )
    """Table by the table of the source, for `apply_changes`, such as `{ "public.orders" = "copy.orders" }`; empty:
    tables with the same names.
    """
    key_columns: tuple[str, ...] = ()
    """Columns of a primary key or unique index that identify a row, for `upsert`; for `apply_changes` those of the
    primary key if not set.
    """
    columns: Mapping[str, ReadPath] = Field(default_factory=dict)
    """Path in the payload by column, such as `{ id = "order.id" }`; empty: fields have the names of columns."""
    ignore_unknown: bool = False
    """Leave fields out that are no columns, and changes of tables that `tables` does not name; otherwise such a message
    is invalid.
    """
    offsets_table: Annotated[str, AfterValidator(table_name)] = "public.headrace_offsets"
    """Table with the offsets, which is created if it does not exist."""
    offsets_name: str | None = None
    """Name under which offsets are stored there; the table if not set, and `changes` for `apply_changes`. Two sinks
    that write the same topic to the same table need two names.
    """

    @model_validator(mode="after")
    def _keys_fit_the_mode(self) -> Self:
        if self.mode == "apply_changes":
            if self.table is not None or self.columns:
                raise ValueError(
                    'mode = "apply_changes" takes tables and columns from messages: remove table and columns'
                )
            return self
        if self.tables:
            raise ValueError('tables is for mode = "apply_changes": set table')
        if self.table is None:
            raise ValueError("table is missing: the table that rows are written to, as public.orders")
        if (self.mode == "upsert") != bool(self.key_columns):
            raise ValueError('mode = "upsert" and key_columns belong together: set both')
        if self.columns and not set(self.key_columns) <= set(self.columns):
            raise ValueError("key_columns names columns that columns does not fill: add their paths there")
        return self
