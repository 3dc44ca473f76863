"""Persistent state of a backfill: its plan, next to `--checkpoint`, and its progress, in the metadata service.

Batches are committed as transactions with the job name as transactional id and the plan id as query id. The metadata
service therefore knows the last committed batch, and no file has to track it. Three files record the rest: the plan
with its batches; a marker that the transactional id was claimed, so that a run which finds no commit under it does not
start from scratch; and a marker that the backfill is complete, after which the transactional id may expire.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark_headrace.errors import FencedError
from pyspark_headrace.jobs.backfill.plan import Plan, PlanError
from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.transactions.staged import Part, Transaction
from pyspark_headrace.transactions.transactions import Transactions

_PLAN: Final = "backfill/plan.json"
_BEGUN: Final = "backfill/begun"
_ENDED: Final = "backfill/ended"
_PREFIX: Final = "backfill-"
_ID: Final = re.compile(r"[0-9a-f-]{36}/(\d+)")
_BEGINNING: Final = 0
"""Number of the empty batch that claims the transactional id."""


class Ledger:
    """Persistent state of one backfill."""

    def __init__(self, store: Store, options: WriteOptions, name: str) -> None:
        """Create the ledger without any request.

        Args:
            store: Store next to the checkpoint.
            options: Options of the sink.
            name: Name of the job.
        """
        self._store = store
        self._transactions = Transactions(options)
        self._name = f"{_PREFIX}{name}"

    def plan(self) -> Plan | None:
        """Load the plan of an earlier run.

        Raises:
            PlanError: The stored object is not a plan.
            StoreError: The plan cannot be read.
        """
        kept = self._store.read(_PLAN)
        return None if kept is None else Plan.from_bytes(kept)

    def keep(self, plan: Plan) -> None:
        """Store a plan.

        Raises:
            ArgumentError: Another plan is stored.
            StoreError: The plan cannot be written.
        """
        self._store.check_exclusive()
        content = plan.to_bytes()
        # The response to a successful request may be lost and the request repeated.
        if not self._store.create(_PLAN, content) and self._store.read(_PLAN) != content:
            raise ArgumentError(f"--checkpoint {self._store.uri}: another run has just begun there")

    def begin(self, plan: Plan, stream_id: int) -> int:
        """Claim the transactional id, or find the progress of the plan. Returns the number of the last committed batch.

        Raises:
            ArgumentError: Another backfill owns the transactional id.
            FencedError: Another backfill has taken the transactional id over.
            PlanError: The record of the committed batches is gone.
            ServerRefusedError: The user is not authorized.
            StoreError: The files next to the checkpoint cannot be read or written.
            UnreachableError: No server answers.
        """
        if self._store.read(_ENDED) is not None:
            return plan.batches
        last = self._transactions.last(stream_id, self._name)
        has_begun = self._store.read(_BEGUN) is not None
        if last is None and has_begun:
            raise PlanError(
                f"the servers no longer know what was committed as {self._name}; going on might write messages "
                "twice. Look where they end, and replay the rest with --offsets and another --checkpoint"
            )
        if last is None or last.query_id != plan.id:
            if has_begun:
                raise FencedError(f"another backfill has taken the name {self._name}; what this one has written stays")
            if last is not None:
                self._check_ended(last.query_id, last.batch_id)
            self.commit(plan, stream_id, _BEGINNING, [], takes=True)
        if not has_begun:
            # Write the marker before the first message is visible.
            self._store.create(_BEGUN, b"")
        return last.batch_id if last is not None and last.query_id == plan.id else _BEGINNING

    def commit(self, plan: Plan, stream_id: int, number: int, parts: list[Part], *, takes: bool = False) -> bool:
        """Commit a batch.

        Args:
            plan: Plan of the batch.
            stream_id: Stream of the topic.
            number: Number of the batch.
            parts: Stages; empty if the messages were appended.
            takes: Take the transactional id over from its owner.

        Returns:
            True if this call has committed the batch; False if it was committed before.

        Raises:
            FencedError: Another backfill owns the transactional id.
            StageExpiredError: A stage has expired.
            ServerRefusedError: Any other refusal; nothing was committed.
            UnreachableError: No server answers; the outcome is unknown, and repeating the call resolves that.
        """
        return self._transactions.commit(stream_id, self._transaction(plan, number), parts, fence=takes)

    def give_up(self, plan: Plan, stream_id: int, number: int, parts: list[Part]) -> None:
        """Discard the stages of a batch before they expire.

        Raises:
            HeadraceError: The stages could not be discarded and will expire.
        """
        self._transactions.abort(stream_id, self._transaction(plan, number), parts)

    def end(self) -> None:
        """Record that the backfill is complete."""
        self._store.create(_ENDED, b"")

    def _transaction(self, plan: Plan, number: int) -> Transaction:
        return Transaction(self._name, plan.id, number)

    def _check_ended(self, query_id: str, batch_id: int) -> None:
        found = _ID.fullmatch(query_id)
        if found is not None and batch_id < int(found[1]):
            raise ArgumentError(
                f"another backfill has the name, and stands at batch {batch_id} of {found[1]}: --resume it with its "
                "--checkpoint, or choose another --name"
            )
