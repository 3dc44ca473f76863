"""Work of tasks: read a range from the partition's leader, and write files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.errors import HeadraceError
from pyspark_headrace.jobs.archive.columns import Columns
from pyspark_headrace.jobs.archive.dead_letters import DeadLetters, letters
from pyspark_headrace.jobs.archive.decoding import InvalidValue
from pyspark_headrace.jobs.archive.results import TaskResult, key_of
from pyspark_headrace.jobs.running.tasks import packed
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.files import ArchivedFile
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.writing import FileOptions, RangeWriter
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.reading import read_range
from pyspark_headrace.read.splits import Split
from pyspark_headrace.transactions.staging import Attempt

_log: Final = logging.getLogger(__name__)


class BadRecordError(HeadraceError):
    """A value cannot be decoded. See ``--on-bad-record``."""


@dataclass(frozen=True)
class Work:
    """Work of the tasks of a micro-batch. Spark pickles it; it holds plain values, and no password or token."""

    options: ReadOptions
    place: str
    """URI of the directory for files."""
    columns: Columns
    files: FileOptions
    counts_bad: bool = False
    """Count bad records; otherwise the first one fails the task."""
    dead_letters: DeadLetters | None = None
    """Destination of bad records, if they are kept."""

    def __call__(self, split: bytes) -> bytes:
        """Decode the range from its row, archive it and return the encoded result."""
        runtime().settle()
        return packed(self.archived(Split.from_bytes(bytes(split))))

    def archived(self, split: Split) -> TaskResult:
        """Archive one range.

        Raises:
            BadRecordError: A value cannot be decoded, and the policy is to fail.
            DataLossError: Messages are missing, or the topic was recreated.
            StoreError: Files cannot be written.
            HeadraceError: The range cannot be read for another reason.
        """
        task = _Task(self, split)
        try:
            return task.run()
        except BaseException:
            task.give_up()
            raise


class _Task:
    def __init__(self, work: Work, split: Split) -> None:
        self._work = work
        self._split = split
        self._store = Store.open(work.place, create=True)
        self._writer = RangeWriter(self._store, key_of(split), split.end, work.files)
        self._files: list[ArchivedFile] = []
        self._bad_records = 0

    def run(self) -> TaskResult:
        staged = None
        if self._work.dead_letters is not None:
            context = TaskContext.get()
            task, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
            # No run id: the driver finds out whether the batch was committed before.
            staged = self._work.dead_letters.stage(self._bad(), Attempt(task, attempt, ""))
        else:
            for _ in self._bad():
                continue
        self._files = self._writer.close()
        return TaskResult(
            key=key_of(self._split),
            start=self._split.start,
            end=self._split.end,
            files=tuple(self._files),
            bad_records=self._bad_records,
            staged=staged,
        )

    def give_up(self) -> None:
        """Discard the written files. Files that cannot be removed now are removed later as orphans."""
        self._writer.abandon()

    def _bad(self) -> Iterator[pa.RecordBatch]:
        """Write good messages and yield bad ones."""
        work, split = self._work, self._split
        for messages in read_range(split, work.options, RAW_SCHEMA):
            rows, good, bad = work.columns.rows(messages, split)
            if bad:
                self._note(messages, bad)
            self._writer.write(rows, good)
            if bad and work.dead_letters is not None:
                yield letters(messages, bad, split)

    def _note(self, messages: pa.RecordBatch, bad: list[InvalidValue]) -> None:
        self._bad_records += len(bad)
        if self._work.counts_bad or self._work.dead_letters is not None:
            return
        place = f"{self._split.stream}/{self._split.topic}, partition {self._split.partition_id}"
        offset = messages.column("offset")[bad[0].row].as_py()
        raise BadRecordError(
            f"{place}, offset {offset}: {bad[0].reason}. --on-bad-record count passes over it, dlq:TOPIC keeps it"
        )
