"""What outlives a run of a backfill: its plan, beside `--checkpoint`, and how far it is, in the metadata service.

Batches are committed as transactions of a name, under the id of the plan: what was committed is known to who commits,
and no file has to keep up with it. Three files say what that cannot: what the batches are; that the name was taken, so
that one who finds nothing under it does not begin anew; and that the end was reached, after which the name may go.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark_headrace.errors import FencedError
from pyspark_headrace.jobs.archives.stores import Store
from pyspark_headrace.jobs.backfill.plan import Plan, PlanError
from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.staged import Part, Transaction
from pyspark_headrace.transactions import Transactions

_PLAN: Final = "backfill/plan.json"
_BEGUN: Final = "backfill/begun"
_ENDED: Final = "backfill/ended"
_PREFIX: Final = "backfill-"
_ID: Final = re.compile(r"[0-9a-f-]{36}/(\d+)")
_BEGINNING: Final = 0
"""Number of the batch that takes the name; it has no messages."""


class Ledger:
    """Keeps a backfill."""

    def __init__(self, store: Store, options: WriteOptions, name: str) -> None:
        """Describe it; nothing is asked yet.

        Args:
            store: Beside the checkpoint.
            options: Of the sink.
            name: Of the job.
        """
        self._store = store
        self._transactions = Transactions(options)
        self._name = f"{_PREFIX}{name}"

    def plan(self) -> Plan | None:
        """What an earlier run has planned.

        Raises:
            PlanError: Something else is there.
            StoreError: It cannot be read.
        """
        kept = self._store.read(_PLAN)
        return None if kept is None else Plan.from_bytes(kept)

    def keep(self, plan: Plan) -> None:
        """Keep a plan.

        Raises:
            ArgumentError: There is one.
            StoreError: It cannot be written.
        """
        self._store.check_exclusive()
        content = plan.to_bytes()
        # The answer to a request that came through may be lost, and the request repeated.
        if not self._store.create(_PLAN, content) and self._store.read(_PLAN) != content:
            raise ArgumentError(f"--checkpoint {self._store.uri}: another run has just begun there")

    def begin(self, plan: Plan, stream_id: int) -> int:
        """Take the name, or find out how far the plan is; returns the number of the last batch that is committed.

        Raises:
            ArgumentError: Another backfill has the name.
            FencedError: It has taken the name from this one.
            PlanError: What was committed is not known any more.
            ServerRefusedError: Not for this user.
            StoreError: What is beside the checkpoint cannot be read or written.
            UnreachableError: No server answers.
        """
        if self._store.read(_ENDED) is not None:
            return plan.batches
        last = self._transactions.last(stream_id, self._name)
        has_begun = self._store.read(_BEGUN) is not None
        if last is None and has_begun:
            raise PlanError(
                f"the servers do not know any more what was committed as {self._name}; going on might write messages "
                "twice. Look where they end, and replay the rest with --offsets and another --checkpoint"
            )
        if last is None or last.query_id != plan.id:
            if has_begun:
                raise FencedError(f"another backfill has taken the name {self._name}; what this one has written stays")
            if last is not None:
                self._check_ended(last.query_id, last.batch_id)
            self.commit(plan, stream_id, _BEGINNING, [], takes=True)
        if not has_begun:
            # Before the first message is there.
            self._store.create(_BEGUN, b"")
        return last.batch_id if last is not None and last.query_id == plan.id else _BEGINNING

    def commit(self, plan: Plan, stream_id: int, number: int, parts: list[Part], *, takes: bool = False) -> bool:
        """Commit a batch.

        Args:
            plan: Whose batch it is.
            stream_id: Of the topic.
            number: Of the batch.
            parts: What was staged; none if it was appended.
            takes: The name is taken from whoever has it.

        Returns:
            Whether it is committed by this; False: it was before.

        Raises:
            FencedError: Another backfill has the name.
            StageExpiredError: It took too long.
            ServerRefusedError: Anything else; nothing was done.
            UnreachableError: No server answers; it may have been done, and the same again finds out.
        """
        return self._transactions.commit(stream_id, self._transaction(plan, number), parts, fence=takes)

    def give_up(self, plan: Plan, stream_id: int, number: int, parts: list[Part]) -> None:
        """Have stages of a batch go before they expire.

        Raises:
            HeadraceError: They will expire.
        """
        self._transactions.abort(stream_id, self._transaction(plan, number), parts)

    def end(self) -> None:
        """Note that all is done."""
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
