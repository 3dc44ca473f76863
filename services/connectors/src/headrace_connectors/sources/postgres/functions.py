"""Changes through SQL functions, which decode the log again at each poll."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

from psycopg import sql

from headrace_connectors.contract import ConnectorError
from headrace_connectors.postgresql.connection import Database
from headrace_connectors.sources.postgres import test_decoding
from headrace_connectors.sources.postgres.changes import MalformedChange, Transaction, parse_lsn
from headrace_connectors.sources.postgres.pgoutput import Decoder
from headrace_connectors.sources.postgres.progress import Polled, State
from headrace_connectors.sources.postgres.settings import CdcSettings
from headrace_connectors.sources.postgres.slot import Slot

_IDLE_ADVANCE_SECONDS: Final = 10.0


class PeekedChanges:
    """Reads changes with ``pg_logical_slot_peek_changes``, and advances the slot with another function.

    Args:
        settings: Settings of the source.
        database: Connection for queries.
        slot: The slot.
        is_read_only: True: it is never advanced, not even past a log without changes.
    """

    def __init__(self, settings: CdcSettings, database: Database, slot: Slot, *, is_read_only: bool = False) -> None:
        self._settings = settings
        self._database = database
        self._slot = slot
        self._idle_at = math.inf if is_read_only else time.monotonic()

    async def poll(self, state: State) -> Polled | None:
        """Return the next changes, or a position alone if there were none for long."""
        (row,) = await self._database.rows("reading the position", "SELECT pg_current_wal_flush_lsn()::text AS lsn")
        await self._slot.checked_lsn(parse_lsn(state.lsn))
        transactions = await self._peek()
        if transactions:
            fresh = [one for one in transactions if not state.covers(one.xid, one.end_lsn)]
            return Polled(fresh, transactions[-1].end_lsn)
        now = time.monotonic()
        if now - self._idle_at >= _IDLE_ADVANCE_SECONDS:
            # The server is to forget a log that has no changes of these tables, however long it has become.
            self._idle_at = now
            return Polled([], max(parse_lsn(row["lsn"]), parse_lsn(state.lsn)))
        await asyncio.sleep(self._settings.poll_interval.seconds)
        return None

    async def advance(self, state: State, lsn: int, *, count: int = 1, waits: bool = False) -> None:
        """Advance the slot."""
        del state, count, waits
        if lsn:
            await self._slot.advance(lsn)

    async def close(self) -> None:
        """Keep the connection, which belongs to the source."""

    async def _peek(self) -> list[Transaction]:
        settings = self._settings
        try:
            if settings.decoder == "pgoutput":
                rows = await self._database.rows(
                    "reading changes",
                    "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1', "
                    "'publication_names', %s)",
                    (settings.slot, settings.batch_size, sql.Identifier(settings.publication_name).as_string()),
                )
                messages = [bytes(row["data"]) for row in rows]
                # Decoding many changes takes a while, in which other connectors should go on.
                return await asyncio.to_thread(lambda: list(Decoder(oids=self._slot.oids).transactions(messages)))
            rows = await self._database.rows(
                "reading changes",
                "SELECT lsn::text AS lsn, xid::text::bigint AS xid, data "
                "FROM pg_logical_slot_peek_changes(%s, NULL, %s, 'skip-empty-xacts', '1')",
                (settings.slot, settings.batch_size),
            )
            lines = [(parse_lsn(row["lsn"]), row["xid"], row["data"]) for row in rows]
            return await asyncio.to_thread(lambda: list(test_decoding.transactions(lines, self._slot.whole)))
        except MalformedChange as error:
            raise ConnectorError(f"the output of {settings.decoder} cannot be understood: {error}") from error
