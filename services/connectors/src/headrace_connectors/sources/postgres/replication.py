"""A connection of PostgreSQL's streaming replication protocol.

The messages are in PostgreSQL's manual under "Streaming Replication Protocol".
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from typing import Any, ClassVar, Final, NamedTuple, Self

import psycopg
from psycopg import conninfo, pq, sql
from psycopg.errors import error_from_result

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.postgresql.connection import FORMS, failures
from headrace_connectors.sources.postgres.changes import print_lsn

_DATA_SIZE: Final = struct.calcsize(">cQQq")
_DATA_KIND: Final = ord("w")
_KEEPALIVE: Final = struct.Struct(">cQqB")
_STATUS: Final = struct.Struct(">cQQQqB")
# Times of the protocol begin in the year 2000.
_EPOCH_SECONDS: Final = 946_684_800
_SILENCE_SECONDS_MAX: Final = 60.0
# As PostgreSQL's own subscribers: the form of values does not depend on settings of the database.
_OPTIONS: Final = " ".join(f"-c {name}={value}" for name, value in FORMS.items())
_IN_USE: Final = "55006"
_LOST: Final = "55000"


class Keepalive(NamedTuple):
    """Position of the server, sent between transactions as well as within them."""

    lsn: int
    """The log before it was sent as far as it has changes."""
    asks: bool
    """True if the server waits for a status, such as before it shuts down."""


class SlotInUse(Unavailable):
    """Another connection streams the slot."""

    code: ClassVar[str] = "slot_in_use"


class ReplicationConnection:
    """A connection that streams the changes of a slot. `start` makes one.

    Nothing is read ahead: messages that are not taken stay in the buffers of the sockets, and then hold up the server.
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._link = connection.pgconn
        self._silent_seconds = 0.0

    @classmethod
    async def start(cls, url: str, name: str, slot: str, publication: str, lsn: int) -> Self:
        """Connect, and stream the changes of a slot.

        Args:
            url: ``postgresql://user:password@host/database``.
            name: Name of the application, shown by the server.
            slot: The slot, of `pgoutput`.
            publication: The publication.
            lsn: Position to begin at; the server begins at the one of the slot if that is greater.

        Raises:
            Unavailable: The server is not reached, or another process uses the slot.
            ConnectorError: The slot cannot be used any more, or something does not exist.
        """
        with failures("connecting for replication"):
            options = conninfo.conninfo_to_dict(url).get("options")
            try:
                connection = await psycopg.AsyncConnection.connect(
                    url,
                    autocommit=True,
                    replication="database",
                    application_name=name,
                    connect_timeout=10,
                    options=f"{options or ''} {_OPTIONS}".strip(),
                )
            except psycopg.OperationalError as error:
                raise Unavailable(
                    f"PostgreSQL, connecting for replication: {' '.join(str(error).split())}; the user needs the "
                    'attribute REPLICATION, and a pooler between needs method = "functions"'
                ) from error
        started = cls(connection)
        try:
            await started._begin(slot, publication, lsn)
        except BaseException:
            await started.close()
            raise
        return started

    async def _begin(self, slot: str, publication: str, lsn: int) -> None:
        names = sql.quote(sql.Identifier(publication).as_string())
        statement = (
            f"START_REPLICATION SLOT \"{slot}\" LOGICAL {print_lsn(lsn)} (proto_version '1', publication_names {names})"
        )
        with failures("beginning to stream"):
            self._link.nonblocking = 1
            self._link.send_query(statement.encode())
            self._link.flush()
            while self._link.is_busy():
                await self.readable(_SILENCE_SECONDS_MAX)
            result = self._link.get_result()
            if result is None or result.status != pq.ExecStatus.COPY_BOTH:
                self._refuse(slot, result)

    def _refuse(self, slot: str, result: Any) -> None:
        if result is None:
            raise Unavailable(f"PostgreSQL closed the connection before the slot {slot} was streamed")
        error = error_from_result(result)
        text = " ".join(str(error).split())
        if error.sqlstate == _IN_USE:
            raise SlotInUse(
                f"the slot {slot} is in use ({text}): another source reads it, or a connection that broke a moment ago "
                "is not noticed yet by PostgreSQL (wal_sender_timeout); stop the other source, or give this one a slot "
                "of its own"
            ) from error
        if error.sqlstate == _LOST:
            raise ConnectorError(
                f"the slot {slot} cannot be read ({text}): if its log was removed (max_slot_wal_keep_size), drop the "
                "slot, and remove the state of the source to start over with a snapshot"
            ) from error
        raise error

    async def readable(self, seconds: float) -> bool:
        """Wait until something arrives, for a time at most, and take it from the socket.

        Raises:
            Unavailable: The connection is broken.
        """
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        socket = self._link.socket
        # Only while it is waited for: bytes that stay in the socket would wake the loop again and again.
        loop.add_reader(socket, arrived.set)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(arrived.wait(), seconds)
        finally:
            loop.remove_reader(socket)
        if not arrived.is_set():
            self._silent_seconds += seconds
            if self._silent_seconds >= _SILENCE_SECONDS_MAX:
                raise Unavailable(
                    f"PostgreSQL has sent nothing for {_SILENCE_SECONDS_MAX:g} s: the connection is broken"
                )
            return False
        with failures("reading changes"):
            self._link.consume_input()
        self._silent_seconds = 0.0
        return True

    def next(self) -> bytes | Keepalive | None:
        """Return the next message of the output plugin, or a keepalive; None: it has not arrived completely.

        Raises:
            Unavailable: The connection is broken, or the server ends it.
        """
        with failures("reading changes"):
            size, buffer = self._link.get_copy_data(1)
            if size == 0:
                return None
            if size < 0:
                result = self._link.get_result()
                text = "" if result is None else f": {' '.join(result.error_message.decode(errors='replace').split())}"
                raise Unavailable(f"PostgreSQL has ended the stream of changes{text}")
        if buffer[0] == _DATA_KIND:
            return bytes(buffer[_DATA_SIZE:])
        _, lsn, _, asks = _KEEPALIVE.unpack_from(buffer)
        return Keepalive(lsn, bool(asks))

    def send_status(self, received: int, flushed: int, *, asks: bool) -> None:
        """Report positions. The server forgets its log up to the flushed one; 0 leaves the slot as it is.

        Args:
            received: Position up to which changes have arrived.
            flushed: Position up to which they are durable.
            asks: True: the server answers with a keepalive.

        Raises:
            Unavailable: The connection is broken.
        """
        now = int((time.time() - _EPOCH_SECONDS) * 1_000_000)
        status = _STATUS.pack(b"r", received, flushed, flushed, now, asks)
        with failures("reporting the position"):
            self._link.put_copy_data(status)
            self._link.flush()

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()
