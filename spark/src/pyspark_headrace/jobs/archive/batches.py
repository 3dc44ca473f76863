"""Micro-batches on the driver: run the tasks that write files, and commit the files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark_headrace.errors import BatchError
from pyspark_headrace.jobs.archive.dead_letters import DeadLetters
from pyspark_headrace.jobs.archive.results import TaskResult, ranges
from pyspark_headrace.jobs.archive.tasks import Work
from pyspark_headrace.jobs.running.job import Context
from pyspark_headrace.jobs.running.tasks import row_by_row, unpacked
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Batch, Table
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.transactions.committing import commit
from pyspark_headrace.transactions.staged import Transaction
from pyspark_headrace.write.target import find_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPLIT: Final = "split BINARY"
"""Schema requested from the source: the complete input of a task."""
_RESULT: Final = "result"
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass
class Totals:
    """Totals of this run."""

    batches: int = 0
    repeated: int = 0
    """Number of micro-batches that were committed before."""
    tasks: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    bad_records: int = 0
    dead_letters: int = 0
    ranges: dict[PartitionKey, tuple[int, int]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int | float]:
        """Return the counts for the report."""
        names = ("batches", "repeated", "tasks", "files", "rows", "bytes", "bad_records", "dead_letters")
        return {name: getattr(self, name) for name in names}

    def details(self) -> dict[str, Any]:
        """Return the details for the report: ranges read, by topic and partition."""
        found: dict[str, dict[str, list[int]]] = {}
        for key, (start, end) in sorted(self.ranges.items()):
            found.setdefault(key.topic, {})[str(key.partition)] = [start, end]
        return {"ranges": found}


class Batches:
    """Micro-batch handler of one query. Spark calls it in a thread of its own."""

    def __init__(
        self, name: str, work: Work, table: Table, dead_letters: WriteOptions | None, context: Context
    ) -> None:
        """Create the handler.

        Args:
            name: Name of the job.
            work: Work of the tasks.
            table: Table to commit files to.
            dead_letters: Options for writing bad records to their topic, if enabled.
            context: Context of the job.
        """
        self._name = name
        self._work = work
        self._table = table
        self._dead_letters = dead_letters
        self._context = context
        self._lock = threading.Lock()
        self._rows: dict[int, int] = {}
        self.totals = Totals()

    def rows_of(self, number: int) -> int | None:
        """Number of messages in a micro-batch."""
        with self._lock:
            return self._rows.pop(number, None)

    def take(self, frame: DataFrame, number: int) -> None:
        """Archive a micro-batch, unless it was committed before.

        Raises:
            BatchError: The results of the tasks are not those of the micro-batch.
            HeadraceError: The commit has failed.
        """
        query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if not query:
            raise BatchError("Spark did not provide the id of the query")
        if self._table.has(query, number):
            self.totals.repeated += 1
            self._context.log.info("this batch was already archived", batch=number)
            return
        work = replace(self._work, dead_letters=self._letters(query, number))
        # Each task has one row.
        archived = row_by_row(work, "binary")
        rows = frame.select(archived("split").alias(_RESULT)).collect()
        results: list[TaskResult] = [unpacked(row[_RESULT]) for row in rows]
        if results:
            self._commit(Transaction(self._name, query, number), results)

    def _letters(self, query: str, number: int) -> DeadLetters | None:
        options = self._dead_letters
        if options is None:
            return None
        # Looked up for each batch: tickets expire and partitions move.
        return DeadLetters(find_all(options), options, Transaction(options.transactional_id or query, query, number))

    def _commit(self, batch: Transaction, results: Sequence[TaskResult]) -> None:
        found = ranges(results)
        files = [file for result in results for file in result.files]
        staged = [result.staged for result in results if result.staged is not None]
        bad = sum(result.bad_records for result in results)
        if self._dead_letters is not None:
            # Commit the dead letters first: a batch whose files are committed is skipped when it is repeated.
            commit(staged, batch.batch_id, self._dead_letters, fence=False)
        is_new = True
        if files:
            # Files that a task has written elsewhere would be lost but listed forever.
            Store.open(self._work.place).check_written({file.path: file.bytes for file in files})
            is_new = self._table.commit(
                Batch(job=self._name, query=batch.query_id, number=batch.batch_id, files=files, ranges=found)
            )
        size = sum(file.bytes for file in files)
        rows = sum(result.rows for result in results)
        self._context.log.info(
            "archived" if is_new else "this batch was already archived by another run",
            batch=batch.batch_id,
            files=len(files),
            rows=rows,
            bytes=size,
            bad_records=bad,
        )
        if is_new:
            self._count(batch.batch_id, results, found)
            self._context.metrics.add(bytes=size)
        else:
            self.totals.repeated += 1

    def _count(self, number: int, results: Sequence[TaskResult], found: dict[PartitionKey, tuple[int, int]]) -> None:
        totals = self.totals
        totals.batches += 1
        totals.tasks += len(results)
        for result in results:
            totals.files += len(result.files)
            totals.rows += result.rows
            totals.bytes += sum(file.bytes for file in result.files)
            totals.bad_records += result.bad_records
            totals.dead_letters += 0 if result.staged is None else result.staged.rows
        for key, (start, end) in found.items():
            first, _ = totals.ranges.get(key, (start, start))
            totals.ranges[key] = (first, end)
        with self._lock:
            self._rows[number] = sum(end - start for start, end in found.values())
