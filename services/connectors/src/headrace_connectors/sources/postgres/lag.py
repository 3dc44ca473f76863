"""Distance of a replication slot from the end of the write-ahead log."""

from __future__ import annotations

from headrace_connectors.contract import Lag
from headrace_connectors.postgresql.connection import Database

_BEHIND = (
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint AS n "
    "FROM pg_replication_slots WHERE slot_name = %s"
)


async def slot_lag(url: str, slot: str) -> Lag | None:
    """Return the bytes of the log after the position of a slot; None: there is no such slot.

    It uses a connection of its own, since the one of the source may wait for changes.

    Raises:
        Unavailable: The server is not reached.
        ConnectorError: It refuses the query.
    """
    database = Database(url, f"headrace {slot} lag")
    try:
        rows = await database.rows("reading the position of the slot", _BEHIND, (slot,))
    finally:
        await database.close()
    behind = rows[0]["n"] if rows else None
    return None if behind is None else Lag(max(0, behind), "bytes")
