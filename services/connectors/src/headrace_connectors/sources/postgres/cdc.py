"""The source `postgres_cdc`: changes of tables, from the log of PostgreSQL."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from headrace_connectors.contract import (
    Batch,
    Cdc,
    ConnectorError,
    Lag,
    Record,
    Settings,
    Source,
    decode_state,
    encode_state,
    stable_id,
)
from headrace_connectors.postgresql.connection import Database
from headrace_connectors.sources.postgres.changes import Transaction, parse_lsn, print_lsn
from headrace_connectors.sources.postgres.functions import PeekedChanges
from headrace_connectors.sources.postgres.lag import slot_lag
from headrace_connectors.sources.postgres.progress import Changes, Polled, State
from headrace_connectors.sources.postgres.settings import CdcSettings
from headrace_connectors.sources.postgres.slot import Slot
from headrace_connectors.sources.postgres.snapshot import Rows, Snapshot
from headrace_connectors.sources.postgres.streaming import ChangeStream

_STATE_VERSION: Final = 1


class PostgresCdc(Source):
    """Reads changes, and lets the server forget them in `commit` alone.

    Transactions come in the order of their commits. What is stored already is recognised by the position of the
    commit: positions of single changes are not in order, since transactions overlap.
    """

    settings_type: ClassVar[type[Settings]] = CdcSettings

    def __init__(self, settings: CdcSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._database = Database(settings.url.reveal(), f"headrace {settings.slot}")
        self._slot = Slot(settings, self._database)
        self._tables = frozenset(settings.tables)
        self._state = State("0/0", "needed" if settings.snapshot == "initial" else "done")
        self._changes: Changes = self._new_changes()
        self._snapshot = Snapshot(self._database, settings.tables, settings.batch_size)
        # State after the next commit, and the position that the server may forget its log up to then.
        self._pending: Polled | None = None
        self._pending_state: State | None = None
        # Rows of the snapshot that are not known to be stored.
        self._uncommitted: Rows | None = None

    def _new_changes(self) -> Changes:
        settings = self._settings
        if not settings.is_streamed:
            return PeekedChanges(settings, self._database, self._slot)
        return ChangeStream(self._slot, count_max=settings.batch_size, bytes_max=settings.max_batch.bytes)

    def mode(self) -> Cdc:
        """The server keeps its log until `commit`."""
        return Cdc()

    async def open(self, state: bytes | None) -> None:
        """Create what is missing at the server."""
        await self._slot.check()
        if self._settings.decoder == "pgoutput":
            await self._slot.create_publication()
        is_new = await self._slot.create()
        if state is not None:
            self._state = decode_state(state, _STATE_VERSION, State)
        if self._state.lsn == "0/0":
            return
        if is_new:
            raise ConnectorError(
                f"the slot {self._settings.slot} did not exist any more, and changes since {self._state.lsn} are lost: "
                "remove the state deliberately to start over with a snapshot"
            )
        await self._slot.check_position(parse_lsn(self._state.lsn))

    async def open_read_only(self, state: bytes | None) -> None:
        """Create neither slot nor publication: rows of the snapshot can be read without them, changes cannot."""
        await self._slot.check()
        # Functions read the slot as it is, and leave it so.
        self._changes = PeekedChanges(self._settings, self._database, self._slot, is_read_only=True)
        if state is not None:
            self._state = decode_state(state, _STATE_VERSION, State)
        if self._state.snapshot == "needed":
            return
        if not await self._slot.plugin():
            raise ConnectorError(
                f"the slot {self._settings.slot} does not exist, so there are no changes to read: the first start of "
                "the source creates it"
            )
        if (process := await self._slot.user()) is not None:
            raise ConnectorError(
                f"the slot {self._settings.slot} is in use by process {process} of PostgreSQL, which is a source that "
                "runs: stop it to look at its changes"
            )

    async def poll(self) -> Batch | None:
        """Return rows of the snapshot, or the changes after the last commit."""
        self._pending = self._pending_state = None
        if self._state.snapshot == "needed":
            return await self._poll_snapshot()
        polled = await self._changes.poll(self._state)
        if polled is None:
            return None
        lsn = max(polled.position, parse_lsn(self._state.lsn))
        visible = self._state.visible
        if visible is not None and lsn > parse_lsn(visible.until):
            visible = None
        self._pending, self._pending_state = polled, State(print_lsn(lsn), "done", visible, polled.part)
        records = [record for transaction in polled.transactions for record in self._records(transaction)]
        return Batch(records, encode_state(_STATE_VERSION, self._pending_state))

    def _records(self, transaction: Transaction) -> list[Record]:
        lsn = print_lsn(transaction.lsn)
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
            for number, change in enumerate(transaction.changes, transaction.first)
            if change.table in self._tables
        ]

    async def commit(self) -> None:
        """Let the server forget what is stored."""
        if self._pending_state is not None:
            self._state = self._pending_state
        if self._pending is not None:
            await self._changes.advance(self._state, self._pending.position)
        self._pending = self._pending_state = self._uncommitted = None

    async def abandon(self) -> str | None:
        """Let the server forget the changes of the last poll, although they are not stored.

        Of a transaction that is split over several batches, all that follows is given up, too.
        """
        pending = self._pending
        if pending is None:
            return None
        position = pending.position if pending.part is None else parse_lsn(pending.part.lsn) + 1
        state = msgspec.structs.replace(self._state, lsn=print_lsn(position), part=None)
        await self._changes.advance(state, position, waits=True)
        self._state = state
        self._pending = self._pending_state = None
        return print_lsn(position)

    async def lag(self) -> Lag | None:
        """Return the bytes of the log after the position of the slot."""
        return await slot_lag(self._settings.url.reveal(), self._settings.slot)

    async def close(self) -> None:
        """Disconnect."""
        await self._changes.close()
        await self._database.close()

    # ---- the snapshot

    async def _poll_snapshot(self) -> Batch:
        if self._uncommitted is None:
            try:
                if not self._snapshot.has_begun:
                    self._state.visible = await self._snapshot.begin()
                self._uncommitted = await self._snapshot.next()
            except BaseException:
                # It is taken again, with the same ids.
                await self._snapshot.forget()
                raise
        if self._uncommitted is not None:
            return Batch(self._snapshot_records(self._uncommitted))
        self._pending_state = msgspec.structs.replace(self._state, snapshot="done")
        return Batch((), encode_state(_STATE_VERSION, self._pending_state))

    def _snapshot_records(self, rows: Rows) -> list[Record]:
        records = []
        for values in rows.values():
            payload: dict[str, Any] = {
                "op": "snapshot", "table": rows.table, "row": values, "old": None, "lsn": None, "xid": None,
            }  # fmt: skip
            # The whole row identifies it: the snapshot may be taken again after a crash.
            identity = msgspec.json.encode(values, order="deterministic")
            records.append(Record(payload, id=stable_id(self._settings.slot, rows.table, identity), table=rows.table))
        return records
