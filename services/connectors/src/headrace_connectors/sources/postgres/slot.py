"""The server's side of a source of changes: tables, publication, and slot."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from psycopg import sql
from psycopg.rows import DictRow

from headrace_connectors.contract import ConnectorError
from headrace_connectors.postgresql.connection import Database
from headrace_connectors.postgresql.tables import TableName
from headrace_connectors.sources.postgres.changes import parse_lsn, print_lsn, replacement
from headrace_connectors.sources.postgres.progress import Published
from headrace_connectors.sources.postgres.replication import ReplicationConnection
from headrace_connectors.sources.postgres.settings import CdcSettings

_log = logging.getLogger(__name__)

_OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
# Changes of a partitioned table are those of its partitions, each with an identity of its own.
_ANONYMOUS: Final = """WITH RECURSIVE parts AS (
    SELECT to_regclass(name)::oid AS oid, name FROM unnest(%s::text[]) name
    UNION ALL SELECT inhrelid, name FROM parts JOIN pg_inherits ON inhparent = oid
    JOIN pg_class c ON c.oid = inhrelid WHERE relispartition
) SELECT DISTINCT c.oid::regclass::text AS name FROM parts p JOIN pg_class c ON c.oid = p.oid
WHERE relkind = 'r' AND relreplident <> 'f' AND (relreplident = 'n' OR NOT EXISTS (
    SELECT FROM pg_index WHERE indrelid = c.oid AND indisvalid
    AND CASE relreplident WHEN 'd' THEN indisprimary AND indimmediate ELSE indisreplident END
)) ORDER BY 1"""
_ENTRIES: Final = """SELECT name, ARRAY(
    SELECT r.oid::bigint FROM pg_publication_rel r WHERE prpubid = p.oid AND prrelid = ANY(oids)
    UNION ALL SELECT p.oid::bigint WHERE puballtables{schemas} ORDER BY 1
) AS entries FROM pg_publication p, (
    SELECT name, ARRAY(SELECT c.oid UNION SELECT relid FROM pg_partition_ancestors(c.oid) relid) AS oids, relnamespace
    FROM unnest(%s::text[]) name
    JOIN pg_namespace n ON n.nspname = split_part(name, '.', 1)
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = substr(name, strpos(name, '.') + 1)
) tables WHERE pubname = %s"""
_SCHEMAS: Final = """
    UNION ALL SELECT s.oid::bigint FROM pg_publication_namespace s WHERE pnpubid = p.oid AND pnnspid = relnamespace"""
_VERSION_MIN: Final = 110_000
_VERSION_OF_PARTITION_ROOTS: Final = 130_000
_VERSION_OF_SCHEMAS: Final = 150_000
_VERSION_OF_FAILOVER: Final = 170_000
_NO_TIMEOUT_SECONDS: Final = 3600.0


class Slot:
    """The slot of a source, and what it needs at the server.

    Args:
        settings: Settings of the source.
        database: Connection for queries.
    """

    def __init__(self, settings: CdcSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._version = 0
        self._partitioned: frozenset[str] = frozenset()
        self.whole: frozenset[str] = frozenset()
        """Tables whose old rows are in the log with all columns."""
        self.published: Published | None = None
        """Contents of the publication when it was looked at last; None: not known."""
        self.oids: dict[str, int] = {}
        """Identifiers of the tables. A table that gets the name of another one has another."""

    @property
    def application(self) -> str:
        """Name of the connections."""
        return f"headrace {self._settings.slot}"

    async def check(self, known: Mapping[str, int] | None = None) -> None:
        """Check the server and the tables.

        Args:
            known: Identifiers of the tables whose changes are stored already.

        Raises:
            ConnectorError: The server cannot be used, or a table is missing, or another one has its name.
            Unavailable: The server is not reached.
        """
        database = self._database
        (version,) = await database.rows(
            "reading its version", "SELECT current_setting('server_version_num')::int AS n"
        )
        self._version = version["n"]
        if self._version < _VERSION_MIN:
            raise ConnectorError(
                f"PostgreSQL {self._version // 10_000} is too old: slots can be advanced since version 11"
            )
        (level,) = await database.rows("reading wal_level", "SELECT current_setting('wal_level') AS level")
        if level["level"] != "logical":
            raise ConnectorError(
                f"wal_level is {level['level']}: set wal_level = logical in postgresql.conf, and restart PostgreSQL"
            )
        rows = await self._check_tables(known or {})
        self._partitioned = frozenset(row["name"] for row in rows if row["is_partitioned"])
        if self._partitioned:
            self._check_partitioned(", ".join(sorted(self._partitioned)))

    async def _check_tables(self, known: Mapping[str, int]) -> list[DictRow]:
        rows = await self._database.rows(
            "looking for the tables",
            "SELECT n.nspname || '.' || c.relname AS name, c.oid::bigint AS oid, c.relkind = 'p' AS is_partitioned, "
            "c.relpersistence = 'u' AS is_unlogged, c.relreplident = 'f' AS is_whole "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p') AND n.nspname || '.' || c.relname = ANY(%s)",
            (list(self._settings.tables),),
        )
        missing = sorted(set(self._settings.tables) - {row["name"] for row in rows})
        if missing:
            raise ConnectorError(f"PostgreSQL has no table {', '.join(missing)}: correct `tables`, or create it")
        if unlogged := sorted(row["name"] for row in rows if row["is_unlogged"]):
            raise ConnectorError(
                f"the log has no changes of {', '.join(unlogged)}: ALTER TABLE {unlogged[0]} SET LOGGED, or remove it "
                "from `tables`"
            )
        oids = {row["name"]: row["oid"] for row in rows}
        if replaced := sorted(name for name, oid in oids.items() if known.get(name, oid) != oid):
            raise ConnectorError(replacement(", ".join(replaced)))
        self.oids = oids
        self.whole = frozenset(row["name"] for row in rows if row["is_whole"])
        return rows

    async def check_again(self) -> None:
        """Check the tables and the publication while changes are read. Failures as of `check`."""
        await self._check_tables(self.oids)
        if self._settings.decoder == "pgoutput":
            await self.check_publication()

    def _check_partitioned(self, names: str) -> None:
        """Refuse what has changes of partitions under the names of these alone: all of them would be left out."""
        if self._settings.decoder == "test_decoding":
            raise ConnectorError(
                'test_decoding names partitions, and not the table that they belong to: set decoder = "pgoutput", or '
                f"name the partitions of {names} in `tables`"
            )
        if self._version < _VERSION_OF_PARTITION_ROOTS:
            raise ConnectorError(
                f"PostgreSQL {self._version // 10_000} publishes partitions alone, and version 13 the table that they "
                f"belong to: name the partitions of {names} in `tables`"
            )

    async def create_publication(self) -> None:
        """Create the publication if it is missing.

        Raises:
            ConnectorError: It lacks a table, or cannot be created, or other programs could not change tables any more.
            Unavailable: The server is not reached.
        """
        name = self._settings.publication_name
        found = await self._publication()
        anonymous = ", ".join(await self._anonymous(self._settings.tables))
        if found is None:
            if anonymous:
                raise ConnectorError(_explanation(anonymous, name))
            # Without ONLY, tables that inherit from these would be published, too, although no one reads their changes.
            names = [sql.SQL("ONLY {}").format(TableName.parse(table).identifier) for table in self._settings.tables]
            tables = sql.SQL(", ").join(names)
            statement = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), tables)
            if self._version >= _VERSION_OF_PARTITION_ROOTS:
                # Changes of partitions come under the name of their table, which `tables` has.
                statement += sql.SQL(" WITH (publish_via_partition_root = true)")
            await self._database.rows("creating the publication", statement)
            self.published = await self._published(dict.fromkeys(_OPERATIONS, True))
            return
        if silent := [operation for operation in _OPERATIONS if not found[operation]]:
            _log.warning("the publication %s leaves out %s: topics will not have them", name, ", ".join(silent))
        if anonymous and (found["UPDATE"] or found["DELETE"]):
            _log.warning("%s", _explanation(anonymous, name))
        await self.check_publication()

    async def _anonymous(self, tables: Sequence[str]) -> list[str]:
        """Return the tables whose rows PostgreSQL cannot identify: published, they can be inserted into alone."""
        names = [TableName.parse(table).identifier.as_string() for table in tables]
        return [row["name"] for row in await self._database.rows("looking for keys", _ANONYMOUS, (names,))]

    async def _publication(self) -> DictRow | None:
        """Return whether the publication has each of the operations; None: it does not exist."""
        found = await self._database.rows(
            "looking for the publication",
            'SELECT pubinsert AS "INSERT", pubupdate AS "UPDATE", pubdelete AS "DELETE", pubtruncate AS "TRUNCATE" '
            "FROM pg_publication WHERE pubname = %s",
            (self._settings.publication_name,),
        )
        return found[0] if found else None

    async def check_publication(self) -> None:
        """Check that the publication has the tables, and lets out what it did when it was looked at last.

        Raises:
            ConnectorError: It lacks a table, does not exist, or was changed.
            Unavailable: The server is not reached.
        """
        name = self._settings.publication_name
        rows = await self._database.rows(
            "reading the publication",
            "SELECT schemaname || '.' || tablename AS name FROM pg_publication_tables WHERE pubname = %s",
            (name,),
        )
        missing = sorted(set(self._settings.tables) - {row["name"] for row in rows})
        if missing and await self._publication() is None:
            raise ConnectorError(
                f"the publication {name} does not exist any more, and changes that were made without it are lost: "
                "remove the state deliberately to start over with a snapshot"
            )
        if self._partitioned.intersection(missing):
            await self._check_root(name)
        if anonymous := await self._anonymous(missing):
            raise ConnectorError(_explanation(", ".join(anonymous), name))
        if missing:
            raise ConnectorError(
                f"the publication {name} has no table {', '.join(missing)}: ALTER PUBLICATION {name} ADD TABLE "
                f"{', '.join(missing)}"
            )
        operations = await self._publication()
        if operations is not None:
            found = await self._published(operations)
            self._check_published(found)
            self.published = found

    async def _published(self, operations: Mapping[str, bool]) -> Published:
        has_schemas = self._version >= _VERSION_OF_SCHEMAS
        rows = await self._database.rows(
            "reading the publication",
            _ENTRIES.format(schemas=_SCHEMAS if has_schemas else ""),
            (list(self._settings.tables), self._settings.publication_name),
        )
        return Published(
            self._version // 10_000,
            [name for name in _OPERATIONS if operations[name]],
            {row["name"]: row["entries"] for row in rows},
        )

    def _check_published(self, found: Published) -> None:
        known, name = self.published, self._settings.publication_name
        if known is None:
            return
        if gone := [one for one in known.operations if one not in found.operations]:
            raise ConnectorError(
                f"the publication {name} leaves out {', '.join(gone)} now, which it had: ALTER PUBLICATION {name} SET "
                f"(publish = '{', '.join(known.operations).lower()}'). Changes that were made meanwhile are lost: "
                "remove the state deliberately to start over with a snapshot"
            )
        changed = sorted(
            table
            for table, entries in known.entries.items()
            if entries
            and found.version == known.version
            and not set(entries).intersection(found.entries.get(table, ()))
        )
        if changed:
            raise ConnectorError(
                f"the publication {name} was changed: {', '.join(changed)} was taken out and put back, or has other "
                "columns or rows. Changes may be lost: remove the state deliberately to start over with a snapshot"
            )

    async def _check_root(self, publication: str) -> None:
        """Refuse a publication that has partitions in place of their table."""
        (row,) = await self._database.rows(
            "reading the publication", "SELECT pubviaroot FROM pg_publication WHERE pubname = %s", (publication,)
        )
        if not row["pubviaroot"]:
            raise ConnectorError(
                f"the publication {publication} has changes of {', '.join(sorted(self._partitioned))} under the names "
                f"of partitions: ALTER PUBLICATION {publication} SET (publish_via_partition_root = true)"
            )

    async def create(self) -> bool:
        """Create the slot if it is missing; return True if it was.

        Raises:
            ConnectorError: There is one of another output plugin, or it cannot be created.
            Unavailable: The server is not reached.
        """
        slot, decoder = self._settings.slot, self._settings.decoder
        plugin = await self.plugin()
        if plugin is None:
            statement, parameters = "SELECT pg_create_logical_replication_slot(%s, %s)", (slot, decoder)
            if self._settings.failover:
                if self._version < _VERSION_OF_FAILOVER:
                    raise ConnectorError(
                        f"PostgreSQL {self._version // 10_000} does not copy slots to standby servers: "
                        "version 17 does; remove `failover`"
                    )
                statement = "SELECT pg_create_logical_replication_slot(%s, %s, failover => true)"
            await self._database.rows("creating the slot", statement, parameters)
            return True
        self._check_decoder(plugin)
        return False

    async def check_kept(self, since: str) -> None:
        """Refuse to go on without the slot. It is not created: the next start would go on as if nothing were lost.

        Args:
            since: What is stored already, for the message.

        Raises:
            ConnectorError: There is none, or one of another output plugin.
            Unavailable: The server is not reached.
        """
        plugin = await self.plugin()
        if plugin is None:
            raise ConnectorError(
                f"the slot {self._settings.slot} does not exist any more, and changes since {since} are lost: remove "
                "the state deliberately to start over with a snapshot"
            )
        self._check_decoder(plugin)

    def _check_decoder(self, plugin: str) -> None:
        slot, decoder = self._settings.slot, self._settings.decoder
        if plugin != decoder:
            raise ConnectorError(
                f"the slot {slot} is of {plugin}, not of {decoder}: set decoder, or choose another slot"
            )

    async def plugin(self) -> str | None:
        """Return the output plugin of the slot; None if there is no slot."""
        found = await self._database.rows(
            "looking for the slot",
            "SELECT plugin FROM pg_replication_slots WHERE slot_name = %s",
            (self._settings.slot,),
        )
        return found[0]["plugin"] if found else None

    async def user(self) -> int | None:
        """Return the process of PostgreSQL that uses the slot; None if none does."""
        found = await self._database.rows(
            "looking at the slot",
            "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s",
            (self._settings.slot,),
        )
        return found[0]["active_pid"] if found else None

    async def check_position(self, lsn: int) -> None:
        """Refuse a server whose log ends before a position, as one that was restored from a backup.

        Raises:
            ConnectorError: It does.
            Unavailable: The server is not reached.
        """
        (row,) = await self._database.rows(
            "reading its position",
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() "
            "ELSE pg_current_wal_insert_lsn() END::text AS lsn",
        )
        if row["lsn"] is not None and parse_lsn(row["lsn"]) < lsn:
            raise ConnectorError(
                f"the log of PostgreSQL ends at {row['lsn']}, before {print_lsn(lsn)}, which is stored already: this "
                "is an older copy of the server, or another one. Remove the state deliberately to start over with a "
                "snapshot, or correct the url"
            )

    async def confirmed_lsn(self) -> int:
        """Return the position up to which the server may forget its log.

        Raises:
            ConnectorError: There is no slot.
            Unavailable: The server is not reached.
        """
        found = await self._database.rows(
            "looking at the slot",
            "SELECT confirmed_flush_lsn::text AS lsn FROM pg_replication_slots WHERE slot_name = %s",
            (self._settings.slot,),
        )
        if not found:
            raise ConnectorError(
                f"the slot {self._settings.slot} does not exist any more, and changes are lost: remove the state "
                "deliberately to start over with a snapshot"
            )
        return parse_lsn(found[0]["lsn"] or "0/0")

    async def checked_lsn(self, lsn: int) -> int:
        """Return the position of the slot, unless changes are missing between it and what is stored.

        Args:
            lsn: End of what is stored; 0: it is not known.

        Raises:
            ConnectorError: There is no slot, or it is after that position.
            Unavailable: The server is not reached.
        """
        confirmed = await self.confirmed_lsn()
        self.refuse_gap(lsn, confirmed)
        return confirmed

    def refuse_gap(self, lsn: int, confirmed: int) -> None:
        """Refuse a slot that is after what is stored. Arguments and failure as of `checked_lsn`."""
        if 0 < lsn < confirmed:
            raise ConnectorError(
                f"the slot {self._settings.slot} begins at {print_lsn(confirmed)}, and changes are stored up to "
                f"{print_lsn(lsn)} only: it was made anew or moved on by another program, and the changes between are "
                "lost. Remove the state deliberately to start over with a snapshot"
            )

    async def advance(self, lsn: int) -> None:
        """Let the server forget its log up to a position, by a function. Failures as of `Database.rows`."""
        await self._database.rows(
            "advancing the slot",
            "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn",
            (print_lsn(lsn), self._settings.slot, print_lsn(lsn)),
        )

    async def sender_timeout_seconds(self) -> float:
        """Return the time after which the server ends a connection that is silent."""
        (row,) = await self._database.rows(
            "reading wal_sender_timeout", "SELECT setting::int AS ms FROM pg_settings WHERE name = 'wal_sender_timeout'"
        )
        return row["ms"] / 1000 or _NO_TIMEOUT_SECONDS

    async def stream(self, lsn: int) -> ReplicationConnection:
        """Stream the changes after a position. Raises as `ReplicationConnection.start`."""
        settings = self._settings
        return await ReplicationConnection.start(
            settings.url.reveal(), self.application, settings.slot, settings.publication_name, lsn
        )


def _explanation(tables: str, publication: str) -> str:
    return (
        f"{tables}: rows have no identity, and UPDATE and DELETE of other programs fail while the publication "
        f"{publication} has them: add a primary key that is not deferrable, or ALTER TABLE ... REPLICA IDENTITY FULL; "
        "or create a publication WITH (publish = 'insert, truncate') for a table that rows are only added to, and name "
        "it in `publication`"
    )
