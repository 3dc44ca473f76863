"""Tasks of a batch: read pieces and stage them. No row passes through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from pyspark_headrace.errors import IncompleteError
from pyspark_headrace.jobs.backfill.messages import Rewriting
from pyspark_headrace.jobs.origins.pieces import Piece
from pyspark_headrace.jobs.running.tasks import run_tasks
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.transactions.staged import Part, Transaction
from pyspark_headrace.write.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Load = Sequence[Piece]
"""Pieces that one task writes, in order."""


class Done(NamedTuple):
    """Result of a written load."""

    rows: int
    size_bytes: int
    """Size of the batches, with headers and indexes."""
    parts: tuple[Part, ...]
    """Stages, one per partition; empty if the messages were appended."""


@dataclass(frozen=True)
class Work:
    """Write function for the tasks."""

    target: Target
    options: WriteOptions
    rewriting: Rewriting
    transaction: Transaction


def write(spark: SparkSession, work: Work, loads: Sequence[Load]) -> list[Done]:
    """Write loads, each in one task. Results are in the order of the loads.

    Stages of repeated or speculative attempts are not in the results and expire.

    Raises:
        pyspark.errors.PySparkException: A task has failed permanently.
    """
    return run_tasks(spark, partial(_write, work), [[load] for load in loads])


def loads_of(pieces: Sequence[Piece], *, rows: int, size_bytes: int, most: int) -> list[list[Piece]]:
    """Distribute pieces over tasks, in order.

    Args:
        pieces: Pieces by partition and offset.
        rows: Minimum number of rows of a task.
        size_bytes: Minimum size of a task.
        most: Maximum number of tasks.
    """
    # Each load but the last reaches one of the two minimums.
    half = max(most // 2, 1)
    enough = max(rows, -(-sum(piece.end - piece.start for piece in pieces) // half))
    enough_bytes = max(size_bytes, -(-sum(piece.size_bytes for piece in pieces) // half))
    loads: list[list[Piece]] = []
    count, size = enough, 0
    for piece in pieces:
        if count >= enough or size >= enough_bytes:
            loads.append([])
            count = size = 0
        loads[-1].append(piece)
        count += piece.end - piece.start
        size += piece.size_bytes
    return loads


def whole_partitions(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return one load per partition: concurrent appends of several tasks would not keep the order."""
    loads: dict[int, list[Piece]] = {}
    for piece in pieces:
        loads.setdefault(piece.partition_id, []).append(piece)
    return list(loads.values())


def _write(work: Work, load: Load) -> Done:
    first = load[0]
    if work.options.is_exact:
        from pyspark_headrace.transactions.staging import Attempt, stage  # noqa: PLC0415 - on executors

        attempt = Attempt(first.partition_id, 0, "")
        staged = stage(
            _rows(work, load), {work.target.topic.name: work.target}, work.options, work.transaction, attempt
        )
        done = Done(staged.rows, staged.size_bytes, staged.parts)
    else:
        from pyspark_headrace.write.appending import append  # noqa: PLC0415 - see above

        counted = append(
            _rows(work, load), {work.target.topic.name: work.target}, work.options, task=first.partition_id
        )
        done = Done(counted.rows, counted.size_bytes, ())
    count = sum(piece.end - piece.start for piece in load)
    if done.rows != count:
        raise IncompleteError(f"{count} messages were to be written, and {done.rows} were")
    return done


def _rows(work: Work, load: Load) -> Iterator[pa.RecordBatch]:
    columns = work.rewriting.columns()
    for piece in load:
        for batch in piece.read(columns):
            yield work.rewriting.apply(batch, piece.partition_id)
