"""The source `postgres_cdc`: changes of tables, from the log of PostgreSQL."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from headrace_connectors.contract import (
    Batch,
    Cdc,
    ConnectorError,
    InFlight,
    Lag,
    Record,
    Settings,
    Source,
    decode_state,
    encode_state,
    stable_id,
)
from headrace_connectors.json_values import JsonEncoder
from headrace_connectors.postgresql.connection import Database
from headrace_connectors.sources.postgres.changes import Transaction, parse_lsn, print_lsn
from headrace_connectors.sources.postgres.functions import PeekedChanges
from headrace_connectors.sources.postgres.lag import slot_lag
from headrace_connectors.sources.postgres.progress import Changes, Polled, State, Visible
from headrace_connectors.sources.postgres.settings import CdcSettings
from headrace_connectors.sources.postgres.slot import Slot
from headrace_connectors.sources.postgres.snapshot import Rows, Snapshot
from headrace_connectors.sources.postgres.streaming import ChangeStream

_STATE_VERSION: Final = 1
_CHECK_SECONDS: Final = 10.0
_IDENTITY: Final = JsonEncoder("deterministic")


class _Position(NamedTuple):
    """Position behind a batch that is not committed."""

    state: State | None
    """State behind it; None for rows of the snapshot."""
    rows: Rows | None = None
    """Rows of the snapshot, which are not read again."""
    lsn: int | None = None
    """Position that the server may forget its log up to; None: there are no changes in the batch."""


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
        publication = settings.publication_name if settings.decoder == "pgoutput" else None
        self._snapshot = Snapshot(self._database, settings.tables, publication, settings.batch_size)
        # True if rows of a snapshot that was not completed may be stored.
        self._has_earlier_rows = False
        self._flight = InFlight[_Position]()
        # Positions of batches that are returned once more, the oldest first.
        self._again: deque[_Position] = deque()
        # True if a batch was given up, and no state behind it is stored.
        self._gave_up = False
        # Time of the next look at the tables.
        self._check_at = time.monotonic() + _CHECK_SECONDS
        # Position that is durable and not reported to the server, and the number of batches since the last one.
        self._unreported: int | None = None
        self._unreported_count = 0

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
        if state is not None:
            self._state = decode_state(state, _STATE_VERSION, State)
        await self._slot.check(self._state.tables)
        self._state.tables = self._slot.oids
        if self._settings.decoder == "pgoutput":
            # Made anew, it would hide that changes are lost.
            self._slot.published = self._state.published
            await (self._slot.create_publication() if state is None else self._slot.check_publication())
            self._state.published = self._slot.published
        if state is None:
            self._has_earlier_rows = not await self._slot.create()
            # The changes of a slot that is made anew meanwhile would not follow the snapshot.
            self._state.lsn = print_lsn(await self._slot.confirmed_lsn())
            return
        is_at_snapshot = self._state.lsn == "0/0"
        await self._slot.check_kept("the snapshot" if is_at_snapshot else self._state.lsn)
        if not is_at_snapshot:
            await self._slot.check_position(parse_lsn(self._state.lsn))
            await self._slot.checked_lsn(parse_lsn(self._state.lsn))

    async def open_read_only(self, state: bytes | None) -> None:
        """Create neither slot nor publication: rows of the snapshot can be read without them, changes cannot."""
        await self._slot.check()
        self._check_at = math.inf
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
        self._go_back()
        if self._state.snapshot == "needed":
            return await self._poll_snapshot()
        await self._check_again()
        self._again.clear()
        if self._gave_up:
            return self._state_alone()
        return self._batch(await self._changes.poll(self._state), self._state)

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        """Return why functions read a batch at a time: each call begins at the position of the slot."""
        if not settings.is_streamed:
            return 'SQL functions read a batch at a time: set decoder = "pgoutput" and method = "replication"'
        return None

    async def poll_ahead(self) -> Batch | None:
        """Return rows of the snapshot, or the changes after the last poll."""
        tip = self._tip()
        if tip.snapshot == "needed":
            return await self._poll_snapshot()
        if not isinstance(self._changes, ChangeStream):
            raise AssertionError("the pipeline file is checked: changes are streamed")
        await self._check_again()
        if self._gave_up and not len(self._flight):
            return self._state_alone()
        polled = await self._changes.poll_ahead(tip, self._state)
        if self._again:
            self._again.popleft()
        return self._batch(polled, tip)

    async def _check_again(self) -> None:
        """Notice tables that were replaced, or left the publication: no message of the log would say so."""
        if (now := time.monotonic()) >= self._check_at:
            await self._slot.check_again()
            self._check_at = now + _CHECK_SECONDS

    def _state_alone(self) -> Batch:
        """Return a batch that stores the state: a start with an older one would miss the changes that were given up."""
        batch = Batch((), encode_state(_STATE_VERSION, self._state))
        self._flight.add(batch, _Position(self._state))
        return batch

    def _tip(self) -> State:
        """Return the state behind the last poll."""
        states = (one.state for one in reversed(self._flight.positions) if one.state is not None)
        return next(states, self._state)

    def _batch(self, polled: Polled | None, before: State) -> Batch | None:
        if polled is None:
            return None
        lsn = max(polled.position, parse_lsn(before.lsn))
        visible = before.visible
        if visible is not None and lsn > parse_lsn(visible.until):
            visible = None
        state = State(print_lsn(lsn), "done", visible, polled.part, before.tables, before.published)
        records = [
            record
            for transaction in polled.transactions
            # The first part of a transaction may have been given up while others were in flight.
            if transaction.lsn + 1 > parse_lsn(self._state.lsn) or not self._settings.is_streamed
            for record in self._records(transaction)
        ]
        batch = Batch(records, encode_state(_STATE_VERSION, state))
        self._flight.add(batch, _Position(state, lsn=polled.position))
        return batch

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
        await self._commit(self._flight.clear())

    async def commit_batch(self, batch: Batch) -> None:
        """Let the server forget a batch and those before it."""
        await self._commit(self._flight.committed(batch))

    async def rewind(self) -> None:
        """Return what is not committed once more."""
        self._go_back()
        if isinstance(self._changes, ChangeStream):
            await self._changes.rewind()

    def _go_back(self) -> None:
        self._again = deque([*self._flight.clear(), *self._again])
        is_complete = self._state.snapshot == "done" or any(one.state is not None for one in self._again)
        if not is_complete and not self._snapshot.has_begun:
            # It is taken again, with all its rows.
            self._again.clear()

    async def _commit(self, positions: list[_Position]) -> None:
        for position in positions:
            if position.state is not None:
                self._state = position.state
                self._gave_up = False
            if position.lsn is not None:
                self._unreported = position.lsn
                self._unreported_count += 1
        if self._unreported is not None:
            count, self._unreported_count = self._unreported_count, 0
            await self._changes.advance(self._state, self._unreported, count=count)
            self._unreported = None

    async def abandon(self) -> str | None:
        """Let the server forget the changes of the oldest batch that is not committed, although they are not stored.

        Of a transaction that is split over several batches, all that follows is given up, too.
        """
        oldest = next(iter([*self._flight.positions, *self._again]), None)
        if oldest is None or oldest.lsn is None or oldest.state is None:
            return None
        position = oldest.lsn if oldest.state.part is None else parse_lsn(oldest.state.part.lsn) + 1
        state = msgspec.structs.replace(self._state, lsn=print_lsn(position), part=None)
        await self._changes.advance(state, position, waits=True)
        self._state = state
        self._gave_up = True
        if len(self._flight):
            self._flight.drop_oldest()
        else:
            self._again.popleft()
        return print_lsn(position)

    async def lag(self) -> Lag | None:
        """Return the bytes of the log after the position of the slot."""
        return await slot_lag(self._settings.url.reveal(), self._settings.slot)

    async def close(self) -> None:
        """Disconnect."""
        await self._changes.close()
        await self._snapshot.forget()

    # ---- the snapshot

    async def _poll_snapshot(self) -> Batch:
        if self._again:
            position = self._again.popleft()
        else:
            try:
                if not self._snapshot.has_begun:
                    self._state.visible = await self._begin_snapshot()
                rows = await self._snapshot.next()
            except BaseException:
                # It is taken again, with the same ids.
                await self._snapshot.forget()
                raise
            done = msgspec.structs.replace(self._state, snapshot="done")
            position = _Position(done if rows is None else None, rows)
        batch = Batch(() if position.rows is None else self._snapshot_records(position.rows))
        if position.state is not None:
            batch = batch._replace(state=encode_state(_STATE_VERSION, position.state))
        self._flight.add(batch, position)
        return batch

    async def _begin_snapshot(self) -> Visible | None:
        """Return the transactions whose changes are left out, because the snapshot has them.

        None: all changes since the slot was created are read. A row that an earlier attempt has stored may be deleted
        since, and this snapshot says nothing of it.
        """
        visible = await self._snapshot.begin()
        is_repeated, self._has_earlier_rows = self._has_earlier_rows, True
        return None if is_repeated and self.keeps_incomplete else visible

    def _snapshot_records(self, rows: Rows) -> list[Record]:
        records = []
        for values in rows.values():
            payload: dict[str, Any] = {
                "op": "snapshot", "table": rows.table, "row": values, "old": None, "lsn": None, "xid": None,
            }  # fmt: skip
            # The whole row identifies it: the snapshot may be taken again after a crash.
            identity = _IDENTITY.encode(values)
            records.append(Record(payload, id=stable_id(self._settings.slot, rows.table, identity), table=rows.table))
        return records
