"""Names of tables in settings."""

from __future__ import annotations

from typing import NamedTuple, Self

from psycopg import sql
from psycopg.abc import AdaptContext


class Name(sql.Identifier):
    """A name, quoted, in a statement with parameters, in which a percent sign is written twice."""

    def as_bytes(self, context: AdaptContext | None = None) -> bytes:
        """Return the name as a part of a statement."""
        return super().as_bytes(context).replace(b"%", b"%%")


class TableName(NamedTuple):
    """A table by schema and name."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``schema.table``.

        Raises:
            ValueError: It has another form.
        """
        schema, _, name = text.partition(".")
        if not schema or not name or "." in name:
            raise ValueError(f"{text!r} is not a table: write schema.table, such as public.orders")
        return cls(schema, name)

    @property
    def identifier(self) -> sql.Identifier:
        """The name, quoted."""
        return sql.Identifier(self.schema, self.name)

    @property
    def in_statement(self) -> Name:
        """The name in a statement with parameters."""
        return Name(self.schema, self.name)


def table_name(text: str) -> str:
    """Return the name of a table as it is.

    Raises:
        ValueError: It is not ``schema.table``.
    """
    TableName.parse(text)
    return text
