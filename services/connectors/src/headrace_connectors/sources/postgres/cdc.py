"""The source `postgres_cdc`: changes of tables, from the log of PostgreSQL."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import msgspec
from psycopg import sql
from pydantic import AfterValidator, model_validator

from headrace_connectors.contract import (
    Batch,
    Cdc,
    ConnectorError,
    Lag,
    Record,
    Settings,
    Source,
    Unavailable,
    decode_state,
    encode_state,
    stable_id,
)
from headrace_connectors.postgresql.connection import Database, failures
from headrace_connectors.postgresql.tables import TableName, table_name
from headrace_connectors.sources.postgres import test_decoding
from headrace_connectors.sources.postgres.changes import MalformedChange, Transaction, parse_lsn, print_lsn
from headrace_connectors.sources.postgres.lag import slot_lag
from headrace_connectors.sources.postgres.pgoutput import Decoder
from headrace_connectors.sources.postgres.values import plain
from headrace_settings import Between, Duration, Secret

_STATE_VERSION: Final = 1
_VERSION_MIN: Final = 110_000
_IDLE_ADVANCE_SECONDS: Final = 10.0


def _slot(name: str) -> str:
    if not name or len(name) > 63 or not all(c.isascii() and (c.islower() or c.isdigit() or c == "_") for c in name):
        raise ValueError(f'{name!r} is not the name of a slot: 1 to 63 of a to z, digits and "_"')
    return name


class CdcSettings(Settings):
    """`settings` of the source `postgres_cdc`."""

    url: Secret
    """Address: `postgresql://user:password@host:5432/database`. The user needs the right to replicate."""
    slot: Annotated[str, AfterValidator(_slot)]
    """Replication slot of this source alone; created if missing."""
    tables: tuple[Annotated[str, AfterValidator(table_name)], ...]
    """Tables, as `schema.table`."""
    decoder: Literal["pgoutput", "test_decoding"] = "pgoutput"
    """Output plugin of the slot. `pgoutput` sends the chosen tables only, and needs a publication."""
    publication: str | None = None
    """Publication for `pgoutput`, created for the tables if missing; not set: the name of the slot."""
    snapshot: Literal["initial", "never"] = "initial"
    """Rows that exist at the first start come before the changes, or never."""
    batch_size: Annotated[int, Between(1, 1_000_000)] = 2000
    """Number of changes after which a batch ends, with the end of a transaction."""
    poll_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 h"))] = Duration.parse(
        "200 ms"
    )
    """Pause after a poll without changes."""

    @model_validator(mode="after")
    def _has_tables(self) -> Self:
        if not self.tables:
            raise ValueError("tables names no table")
        return self


class _Visible(msgspec.Struct):
    """Transactions whose changes are in the snapshot."""

    xmin: int
    xmax: int
    running: list[int]
    until: str
    """Position after the commits of all of them."""

    def includes(self, transaction: Transaction) -> bool:
        if transaction.end_lsn > parse_lsn(self.until):
            return False
        # The log has the lower 32 bits of transaction ids; the snapshot has all 64.
        distance = (transaction.xid - self.xmax) & 0xFFFFFFFF
        xid = self.xmax + (distance - 0x100000000 if distance >= 0x80000000 else distance)
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)


class _State(msgspec.Struct):
    lsn: str
    """End of the last transaction whose changes are stored."""
    snapshot: Literal["needed", "done"]
    visible: _Visible | None = None


class PostgresCdc(Source):
    """Reads changes with ``pg_logical_slot_peek_changes``, and lets the server forget them in `commit` alone.

    Transactions stay whole and in the order of their commits. What is stored already is recognised by the position
    after the commit: positions of single changes are not in order, since transactions overlap.
    """

    settings_type: ClassVar[type[Settings]] = CdcSettings

    def __init__(self, settings: CdcSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._database = Database(settings.url.reveal(), f"headrace {settings.slot}")
        self._tables = frozenset(settings.tables)
        self._state = _State("0/0", "needed" if settings.snapshot == "initial" else "done")
        # The position that the next commit advances the slot to.
        self._pending: int | None = None
        self._pending_state: _State | None = None
        self._rows: AsyncIterator[list[Record]] | None = None
        # Rows of the snapshot that are not known to be stored.
        self._uncommitted: list[Record] | None = None
        self._idle_at = time.monotonic()

    def mode(self) -> Cdc:
        """The server keeps its log until `commit`."""
        return Cdc()

    async def open(self, state: bytes | None) -> None:
        """Create what is missing at the server."""
        await self._check_server()
        await self._check_tables()
        if self._settings.decoder == "pgoutput":
            await self._create_publication()
        is_new = await self._create_slot()
        if state is not None:
            self._state = decode_state(state, _STATE_VERSION, _State)
        if is_new and self._state.lsn != "0/0":
            raise ConnectorError(
                f"the slot {self._settings.slot} did not exist any more, and changes since {self._state.lsn} are lost: "
                "remove the state deliberately to start over with a snapshot"
            )

    async def open_read_only(self, state: bytes | None) -> None:
        """Create neither slot nor publication: rows of the snapshot can be read without them, changes cannot."""
        await self._check_server()
        await self._check_tables()
        # A poll without changes would advance the slot after a while.
        self._idle_at = math.inf
        if state is not None:
            self._state = decode_state(state, _STATE_VERSION, _State)
        if self._state.snapshot == "done" and not await self._slot_plugin():
            raise ConnectorError(
                f"the slot {self._settings.slot} does not exist, so there are no changes to read: the first start of "
                "the source creates it"
            )

    async def _check_server(self) -> None:
        database = self._database
        (version,) = await database.rows(
            "reading its version", "SELECT current_setting('server_version_num')::int AS n"
        )
        if version["n"] < _VERSION_MIN:
            raise ConnectorError(
                f"PostgreSQL {version['n'] // 10_000} is too old: slots can be advanced since version 11"
            )
        (level,) = await database.rows("reading wal_level", "SELECT current_setting('wal_level') AS level")
        if level["level"] != "logical":
            raise ConnectorError(
                f"wal_level is {level['level']}: set wal_level = logical in postgresql.conf, and restart PostgreSQL"
            )

    async def _check_tables(self) -> None:
        rows = await self._database.rows(
            "looking for the tables",
            "SELECT n.nspname || '.' || c.relname AS name "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')",
        )
        missing = sorted(self._tables - {row["name"] for row in rows})
        if missing:
            raise ConnectorError(f"PostgreSQL has no table {', '.join(missing)}: correct `tables`, or create it")

    async def _create_publication(self) -> None:
        name = self._publication
        found = await self._database.rows(
            "looking for the publication", "SELECT pubname FROM pg_publication WHERE pubname = %s", (name,)
        )
        if not found:
            tables = sql.SQL(", ").join(TableName.parse(table).identifier for table in self._settings.tables)
            statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), tables)
            await self._database.rows("creating the publication", statement)
            return
        rows = await self._database.rows(
            "reading the publication",
            "SELECT schemaname || '.' || tablename AS name FROM pg_publication_tables WHERE pubname = %s",
            (name,),
        )
        missing = sorted(self._tables - {row["name"] for row in rows})
        if missing:
            raise ConnectorError(
                f"the publication {name} has no table {', '.join(missing)}: ALTER PUBLICATION {name} ADD TABLE "
                f"{', '.join(missing)}"
            )

    async def _create_slot(self) -> bool:
        slot, decoder = self._settings.slot, self._settings.decoder
        plugin = await self._slot_plugin()
        if plugin is None:
            await self._database.rows(
                "creating the slot", "SELECT pg_create_logical_replication_slot(%s, %s)", (slot, decoder)
            )
            return True
        if plugin != decoder:
            raise ConnectorError(
                f"the slot {slot} is of {plugin}, not of {decoder}: set decoder, or choose another slot"
            )
        return False

    async def _slot_plugin(self) -> str | None:
        """Return the output plugin of the slot; None if there is no slot."""
        found = await self._database.rows(
            "looking for the slot",
            "SELECT plugin FROM pg_replication_slots WHERE slot_name = %s",
            (self._settings.slot,),
        )
        return found[0]["plugin"] if found else None

    @property
    def _publication(self) -> str:
        return self._settings.publication or self._settings.slot

    async def poll(self) -> Batch | None:
        """Return rows of the snapshot, or the changes after the last commit."""
        self._pending = self._pending_state = None
        if self._state.snapshot == "needed":
            return await self._poll_snapshot()
        before = await self._current_lsn()
        transactions = await self._peek()
        if not transactions:
            await self._idle(before)
            return None
        fresh = self._fresh(transactions)
        self._pending = transactions[-1].end_lsn
        visible = self._state.visible
        if visible is not None and self._pending > parse_lsn(visible.until):
            visible = None
        self._pending_state = _State(print_lsn(self._pending), "done", visible)
        records = [record for transaction in fresh for record in self._records(transaction)]
        return Batch(records, encode_state(_STATE_VERSION, self._pending_state))

    def _fresh(self, transactions: Iterable[Transaction]) -> list[Transaction]:
        stored, visible = parse_lsn(self._state.lsn), self._state.visible
        return [
            one for one in transactions if one.end_lsn > stored and not (visible is not None and visible.includes(one))
        ]

    def _records(self, transaction: Transaction) -> list[Record]:
        lsn = print_lsn(transaction.end_lsn)
        return [
            Record(
                {
                    "op": change.operation,
                    "table": change.table,
                    "row": change.row,
                    "old": change.old,
                    "lsn": lsn,
                    "xid": transaction.xid,
                },
                # The number among all changes of the transaction is the same whenever it is read.
                id=stable_id(self._settings.slot, lsn, number),
                table=change.table,
            )
            for number, change in enumerate(transaction.changes)
            if change.table in self._tables
        ]

    async def _peek(self) -> list[Transaction]:
        settings = self._settings
        try:
            if settings.decoder == "pgoutput":
                rows = await self._database.rows(
                    "reading changes",
                    "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1', "
                    "'publication_names', %s)",
                    (settings.slot, settings.batch_size, self._publication),
                )
                messages = [bytes(row["data"]) for row in rows]
                # Decoding many changes takes a while, in which other connectors should go on.
                return await asyncio.to_thread(lambda: list(Decoder().transactions(messages)))
            rows = await self._database.rows(
                "reading changes",
                "SELECT lsn::text AS lsn, xid::text::bigint AS xid, data "
                "FROM pg_logical_slot_peek_changes(%s, NULL, %s, 'skip-empty-xacts', '1')",
                (settings.slot, settings.batch_size),
            )
            lines = [(parse_lsn(row["lsn"]), row["xid"], row["data"]) for row in rows]
            return await asyncio.to_thread(lambda: list(test_decoding.transactions(lines)))
        except MalformedChange as error:
            raise ConnectorError(f"the output of {settings.decoder} cannot be understood: {error}") from error

    async def commit(self) -> None:
        """Let the server forget what is stored."""
        if self._pending_state is not None:
            self._state = self._pending_state
        if self._pending is not None:
            await self._advance(self._pending)
        self._pending = self._pending_state = self._uncommitted = None

    async def abandon(self) -> str | None:
        """Let the server forget the changes of the last poll, although they are not stored."""
        if self._pending is None:
            return None
        position = self._pending
        await self._advance(position)
        self._pending = self._pending_state = None
        return print_lsn(position)

    async def _advance(self, lsn: int) -> None:
        await self._database.rows(
            "advancing the slot",
            "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn",
            (print_lsn(lsn), self._settings.slot, print_lsn(lsn)),
        )

    async def _current_lsn(self) -> int:
        (row,) = await self._database.rows("reading the position", "SELECT pg_current_wal_flush_lsn()::text AS lsn")
        return parse_lsn(row["lsn"])

    async def _idle(self, lsn: int) -> None:
        """Wait; and let the server forget a log that has no changes of these tables, however long it has become."""
        now = time.monotonic()
        if now - self._idle_at >= _IDLE_ADVANCE_SECONDS:
            self._idle_at = now
            try:
                await self._advance(lsn)
            except ConnectorError as error:
                # The next commit, or the next attempt, does it as well.
                raise Unavailable(str(error)) from error
        await asyncio.sleep(self._settings.poll_interval.seconds)

    async def lag(self) -> Lag | None:
        """Return the bytes of the log after the position of the slot."""
        return await slot_lag(self._settings.url.reveal(), self._settings.slot)

    async def close(self) -> None:
        """Disconnect."""
        await self._database.close()

    # ---- the snapshot

    async def _poll_snapshot(self) -> Batch | None:
        if self._uncommitted is not None:
            return Batch(self._uncommitted)
        try:
            if self._rows is None:
                await self._begin_snapshot()
                self._rows = self._read_tables()
            self._uncommitted = await anext(self._rows, None)
        except BaseException:
            # A snapshot cannot be continued: it is taken again, with the same ids.
            self._rows = None
            await self._database.close()
            raise
        if self._uncommitted is not None:
            return Batch(self._uncommitted)
        await self._end_snapshot()
        self._pending_state = msgspec.structs.replace(self._state, snapshot="done")
        return Batch((), encode_state(_STATE_VERSION, self._pending_state))

    async def _begin_snapshot(self) -> None:
        connection = await self._database.connection()
        with failures("beginning the snapshot"):
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor = await connection.execute(
                "SELECT txid_snapshot_xmin(s) AS xmin, txid_snapshot_xmax(s) AS xmax, "
                "ARRAY(SELECT txid_snapshot_xip(s)) AS running, pg_current_wal_insert_lsn()::text AS lsn "
                "FROM txid_current_snapshot() s"
            )
            row = await cursor.fetchone()
        if row is None:
            raise AssertionError("the query returns one row")
        self._state.visible = _Visible(row["xmin"], row["xmax"], row["running"], row["lsn"])

    async def _read_tables(self) -> AsyncIterator[list[Record]]:
        connection = await self._database.connection()
        for table in self._settings.tables:
            with failures(f"reading {table}"):
                async with connection.cursor(name="headrace_snapshot") as cursor:
                    await cursor.execute(sql.SQL("SELECT * FROM {}").format(TableName.parse(table).identifier))
                    while rows := await cursor.fetchmany(self._settings.batch_size):
                        yield self._snapshot_records(table, rows)

    def _snapshot_records(self, table: str, rows: Sequence[dict[str, Any]]) -> list[Record]:
        records = []
        for row in rows:
            values = {name: plain(value) for name, value in row.items()}
            payload = {"op": "snapshot", "table": table, "row": values, "old": None, "lsn": None, "xid": None}
            # The whole row identifies it: the snapshot may be taken again after a crash.
            identity = msgspec.json.encode(values, enc_hook=str, order="deterministic")
            records.append(Record(payload, id=stable_id(self._settings.slot, table, identity), table=table))
        return records

    async def _end_snapshot(self) -> None:
        self._rows = None
        connection = await self._database.connection()
        with failures("ending the snapshot"):
            await connection.execute("COMMIT")
