"""Staging of a task's rows for a batch that the driver commits, exactly once."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyspark_headrace.cluster import credentials
from pyspark_headrace.errors import HeadraceError, StalledError
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.transactions.staged import Part, Staged, Transaction
from pyspark_headrace.transactions.stager import Stager
from pyspark_headrace.transactions.transactions import Transactions
from pyspark_headrace.write.packing import Counted, Packed, pack
from pyspark_headrace.write.target import Targets

_log: Final = logging.getLogger(__name__)
_KEPT_BYTES: Final = 64 << 20
"""Memory limit of a task's buffered batches, which are resent if a call fails. A task above the limit stages its rows
only once, and Spark repeats the task after a failure.
"""

_asked: set[tuple[int, str, str]] = set()
"""Runs of queries, by process, that were looked up: only the first batch of a run can be a repeated one."""


@dataclass(frozen=True)
class Attempt:
    """One attempt of a task."""

    task: int
    attempt: int
    run: str
    """Run id of the query; empty for a batch, which is never repeated."""


def stage(
    rows: Iterator[pa.RecordBatch], targets: Targets, options: WriteOptions, transaction: Transaction, attempt: Attempt
) -> Staged:
    """Stage rows. On return, all of them are on disk and not yet visible.

    Raises:
        RowRefusedError: A row cannot be a message.
        ServerRefusedError: A node does not let this task write.
        UnreachableError: No server answers.
        IncompleteError: A node has stored something else.
    """
    # A transaction belongs to one stream, and all targets are in the same stream.
    stream_id = next(iter(targets.values())).topic.stream_id
    if attempt.run and _is_committed(stream_id, options, transaction, attempt.run):
        # Drain the input: Spark discards a worker that leaves data in its pipe.
        for _ in rows:
            continue
        return _report(transaction, stream_id, attempt, (), Counted(), is_committed=True)
    staging = _Staging(targets, options)
    try:
        for packed in pack(rows, targets, options, task=attempt.task):
            staging.send(packed)
        parts = staging.finish()
    finally:
        staging.close()
    return _report(transaction, stream_id, attempt, parts, staging.counted, is_committed=False)


def _report(
    transaction: Transaction,
    stream_id: int,
    attempt: Attempt,
    parts: tuple[Part, ...],
    counted: Counted,
    *,
    is_committed: bool,
) -> Staged:
    return Staged(
        transaction,
        stream_id,
        attempt.task,
        attempt.attempt,
        parts,
        counted.rows,
        counted.size_bytes,
        is_committed,
    )


def _is_committed(stream_id: int, options: WriteOptions, transaction: Transaction, run: str) -> bool:
    """Return whether the batch is known to be committed, so that staging can be skipped.

    The commit itself decides. This lookup happens once per run, and only where credentials are available.
    """
    asked = (os.getpid(), transaction.name, run)
    if asked in _asked or not credentials.are_here(options):
        return False
    try:
        last = Transactions(options.each_server_once()).last(stream_id, transaction.name)
    except HeadraceError as error:
        _log.info("not known whether batch %s is committed: %s", transaction.batch_id, error)
        last = None
    if last is not None and last.query_id == transaction.query_id and transaction.batch_id <= last.batch_id:
        return True
    _asked.add(asked)
    return False


class _Staging:
    """Stages of one task, one per partition of each topic."""

    def __init__(self, targets: Targets, options: WriteOptions) -> None:
        self._targets = targets
        self._options = options
        self._stagers: dict[tuple[str, int], Stager] = {}
        self._moved = threading.Condition()
        self._keeps = True
        self.counted = Counted()

    def send(self, packed: Packed) -> None:
        topic, batch = packed
        self.counted.add(batch)
        if self._keeps and self.counted.size_bytes > _KEPT_BYTES:
            self._keeps = False
            for known in self._stagers.values():
                known.let_go()
        stager = self._stagers.get((topic, batch.partition))
        if stager is None:
            stager = Stager(self._targets[topic], batch.partition, self._options, self._moved, keeps=self._keeps)
            self._stagers[topic, batch.partition] = stager
        stager.send(batch.messages_count, batch.batch)
        if not self._keeps:
            self._wait()

    def finish(self) -> tuple[Part, ...]:
        # The stages are sealed concurrently.
        stagers = [stager for _, stager in sorted(self._stagers.items())]
        for stager in stagers:
            stager.finish()
        return tuple(stager.take_answer() for stager in stagers)

    def close(self) -> None:
        for stager in self._stagers.values():
            stager.close()

    def _wait(self) -> None:
        """Wait until the number of unsent batches is within the limit."""
        deadline = time.monotonic() + self._options.append_timeout_ms / 1000
        before = None
        while True:
            for stager in self._stagers.values():
                stager.check()
            with self._moved:
                unsent = sum(stager.unsent for stager in self._stagers.values())
                if unsent < self._options.max_in_flight:
                    return
                if unsent != before:
                    before = unsent
                    deadline = time.monotonic() + self._options.append_timeout_ms / 1000
                elif time.monotonic() > deadline:
                    titles = ", ".join(target.topic.title for target in self._targets.values())
                    raise StalledError(f"{titles}: no node has taken a batch in time")
                self._moved.wait(0.5)
