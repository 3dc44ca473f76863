"""Connections to PostgreSQL, and its failures as the runtime understands them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row

from headrace_connectors.contract import ConnectorError, Unavailable

Connection = psycopg.AsyncConnection[DictRow]

FORMS: Final = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "array_nulls": "on",
    "xmloption": "content",
    "quote_all_identifiers": "off",
}
"""Settings of every session: the text of a value, and the name of a type, do not depend on those of the database, the
role or the address.
"""
_SET_FORMS: Final = "; ".join(f"SET {name} = {value}" for name, value in FORMS.items())


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Translate failures within a ``with`` block.

    Args:
        what: What is done, for the message.

    Raises:
        Unavailable: The server is not reached, busy or stopping; the same call may succeed later.
        ConnectorError: It will not.
    """
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unavailable(f"PostgreSQL, {what}: {_text(error)}") from error
    except psycopg.Error as error:
        raise ConnectorError(f"PostgreSQL, {what}: {_text(error)}") from error


def _text(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class Database:
    """A connection that is made again when it was lost. One caller at a time.

    Args:
        url: ``postgresql://user:password@host/database``.
        name: Name of the application, shown by the server.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._connection: Connection | None = None

    async def connection(self) -> Connection:
        """Return a connection in autocommit mode.

        Raises:
            Unavailable: It cannot be made now.
            ConnectorError: The address or the login is wrong.
        """
        if self._connection is None or self._connection.closed:
            with failures("connecting"):
                try:
                    self._connection = await psycopg.AsyncConnection.connect(
                        self._url,
                        autocommit=True,
                        row_factory=dict_row,
                        application_name=self._name,
                        connect_timeout=10,
                    )
                    # Not options of the connection: poolers refuse those.
                    await self._connection.execute(_SET_FORMS)
                except psycopg.ProgrammingError:
                    # The text of libpq may have a part of the password.
                    raise ConnectorError("url is not an address of PostgreSQL: correct it") from None
        return self._connection

    async def rows(self, what: str, statement: Any, parameters: Any = None) -> list[DictRow]:
        """Execute a query and return its rows. Failures as of `failures`."""
        connection = await self.connection()
        with failures(what):
            cursor = await connection.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
