"""Sink: created on the driver, run in tasks."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pyspark_headrace.columns.sink_schema import check_rows
from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.writing import BATCH_NAMES, WriteOptions, write_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_headrace.transactions.staged import Transaction
    from pyspark_headrace.write.target import Targets

_log: Final = logging.getLogger(__name__)

_BATCH_NAMES_COUNT: Final = 64
"""Number of transactional ids shared by all batches of a stream. The id of a batch selects one of them, which the batch
takes over with a fence. A stream keeps a thousand transactional ids for a week, only its managers may delete one, and
the previous owner is recorded with each.
"""

_BATCHES: Final = "batches"
"""Query id of numbered batches written without a streaming query."""
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Local properties that Spark sets in the tasks of streams."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """Commit message of a task that appends."""

    rows: int
    size_bytes: int
    """Size of the batches, with headers and indexes."""
    batches: int


class BatchWriter(DataSourceArrowWriter):
    """Writer of a DataFrame. Spark pickles the writer for tasks and for the commit, so it holds plain values only."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic is appended to: mode overwrite is not possible")
        self._options, self._targets = _planned(given, schema, is_stream=False)
        self._id = uuid.uuid4()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append or stage the rows of a task."""
        if not self._options.is_exact:
            return _append(iterator, self._targets, self._options)
        from pyspark_headrace.transactions.staged import Transaction  # noqa: PLC0415 - see `_planned`

        if self._options.transactional_id is not None and self._options.batch_id is not None:
            # A repeated write has the same query id, if any, and the same batch number.
            query_id, run = _property(_QUERY_ID) or _BATCHES, _property(_RUN_ID)
            transaction = Transaction(self._options.transactional_id, query_id, self._options.batch_id)
            return _stage(iterator, self._targets, self._options, transaction, run=run or str(self._id))
        name = f"{BATCH_NAMES}{self._id.int % _BATCH_NAMES_COUNT}"
        return _stage(iterator, self._targets, self._options, Transaction(name, str(self._id), 0), run="")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit after all tasks have succeeded. With at-least-once, appended rows were visible at once."""
        if not self._options.is_exact:
            _report(messages)
            return
        from pyspark_headrace.transactions.committing import commit  # noqa: PLC0415

        if self._options.batch_id is not None:
            fence = self._options.on_checkpoint_reset == "fence" and self._options.batch_id == 0
            commit(messages, self._options.batch_id, self._options, fence=fence)
        else:
            commit(messages, 0, self._options, fence=True, waits=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort after a failed task. With at-least-once, rows appended by other tasks stay."""
        if not self._options.is_exact:
            _log.warning("the batch has failed; what its tasks had appended until then stays in the topic")
            return
        from pyspark_headrace.transactions.committing import abort  # noqa: PLC0415

        abort(messages, self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of micro-batches. Spark creates another instance for commit and abort."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options, self._targets = _planned(given, schema, is_stream=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Append or stage the rows of a task."""
        if not self._options.is_exact:
            return _append(iterator, self._targets, self._options)
        transaction = _transaction(self._options)
        return _stage(iterator, self._targets, self._options, transaction, run=_property(_RUN_ID))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Commit after all tasks have succeeded."""
        if not self._options.is_exact:
            _report(messages)
            return
        from pyspark_headrace.transactions.committing import commit  # noqa: PLC0415

        # Only the first batch fences: a query that was fenced itself must not take the name back with its next batch.
        fence = self._options.on_checkpoint_reset == "fence" and batchId == 0
        commit(messages, batchId, self._options, fence=fence)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort after a failed task. With at-least-once, appended rows stay and are repeated with the micro-batch."""
        if not self._options.is_exact:
            _log.warning("micro-batch %s has failed; what its tasks had appended until then stays", batchId)
            return
        from pyspark_headrace.transactions.committing import abort  # noqa: PLC0415

        abort(messages, self._options)


def _planned(given: Mapping[str, str], schema: StructType, *, is_stream: bool) -> tuple[WriteOptions, Targets]:
    from pyspark_headrace.write.target import find_all  # noqa: PLC0415 - not loaded where nothing is written

    options = write_options(given, is_stream=is_stream)
    check_rows(schema, options)
    return options, find_all(options)


def _property(name: str) -> str:
    """Return a local property of this task; empty if not set."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return (context.getLocalProperty(name) or "") if context is not None else ""


def _transaction(options: WriteOptions) -> Transaction:
    from pyspark_headrace.transactions.staged import Transaction  # noqa: PLC0415

    query_id, batch_id = _property(_QUERY_ID), _property(_BATCH_ID)
    if not query_id or not batch_id:
        raise OptionError("guarantee = exactly-once needs micro-batches: Spark provides no ids of the query and batch")
    return Transaction(options.transactional_id or query_id, query_id, int(batch_id))


def _append(rows: Iterator[pa.RecordBatch], targets: Targets, options: WriteOptions) -> Written:
    # Expensive import, not needed for planning.
    from pyspark import TaskContext  # noqa: PLC0415

    from pyspark_headrace.cluster.runtime import runtime  # noqa: PLC0415
    from pyspark_headrace.write.appending import append  # noqa: PLC0415

    context = TaskContext.get()
    runtime().settle()
    counted = append(rows, targets, options, task=context.partitionId() if context is not None else 0)
    return Written(counted.rows, counted.size_bytes, counted.batches)


def _stage(
    rows: Iterator[pa.RecordBatch], targets: Targets, options: WriteOptions, transaction: Transaction, *, run: str
) -> WriterCommitMessage:
    from pyspark import TaskContext  # noqa: PLC0415

    from pyspark_headrace.cluster.runtime import runtime  # noqa: PLC0415
    from pyspark_headrace.transactions.staging import Attempt, stage  # noqa: PLC0415

    context = TaskContext.get()
    task, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
    runtime().settle()
    return stage(rows, targets, options, transaction, Attempt(task, attempt, run))


def _report(messages: list[WriterCommitMessage | None]) -> None:
    written = [message for message in messages if isinstance(message, Written)]
    _log.info(
        "%s rows, %s bytes in %s batches were appended",
        sum(message.rows for message in written),
        sum(message.size_bytes for message in written),
        sum(message.batches for message in written),
    )
