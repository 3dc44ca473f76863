"""What tasks do: read a range from the node that has it, and write files of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext

from pyspark_headrace.errors import HeadraceError
from pyspark_headrace.jobs.archive.columns import Columns
from pyspark_headrace.jobs.archive.dead_letters import DeadLetters, letters
from pyspark_headrace.jobs.archive.decoding import Bad
from pyspark_headrace.jobs.archive.results import TaskResult, key_of
from pyspark_headrace.jobs.archives.columns import RAW_SCHEMA
from pyspark_headrace.jobs.archives.files import ArchivedFile
from pyspark_headrace.jobs.archives.stores import Store
from pyspark_headrace.jobs.archives.writing import FileOptions, RangeWriter
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.reading import read_range
from pyspark_headrace.runtime import runtime
from pyspark_headrace.splits import Split
from pyspark_headrace.staging import Attempt

_log: Final = logging.getLogger(__name__)


class BadRecordError(HeadraceError):
    """A value cannot be decoded. See ``--on-bad-record``."""


@dataclass(frozen=True)
class Work:
    """What tasks of a micro-batch are told. Spark copies it there: values, and neither password nor token."""

    options: ReadOptions
    place: str
    """URI of where files go."""
    columns: Columns
    files: FileOptions
    counts_bad: bool = False
    """Bad records are counted; otherwise the task fails at one."""
    dead_letters: DeadLetters | None = None
    """Where they go instead."""

    def __call__(self, split: bytes) -> str:
        """Take a range as a row has it, and return what was made of it."""
        runtime().settle()
        return self.archived(Split.from_bytes(bytes(split))).to_text()

    def archived(self, split: Split) -> TaskResult:
        """Archive one range.

        Raises:
            BadRecordError: A value cannot be decoded, and that is not to be.
            DataLossError: Messages are not there any more, or the topic was made anew.
            StoreError: Files cannot be written.
            HeadraceError: Whatever else keeps it from reading.
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
            # Without its run: whether the batch was committed already is the driver's to find out.
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
        """Nobody will ask for what was written. What cannot be removed now is removed with other orphans."""
        self._writer.abandon()

    def _bad(self) -> Iterator[pa.RecordBatch]:
        """Write what is good; give what is not."""
        work, split = self._work, self._split
        for messages in read_range(split, work.options, RAW_SCHEMA):
            rows, good, bad = work.columns.rows(messages, split)
            if bad:
                self._note(messages, bad)
            self._writer.write(rows, good)
            if bad and work.dead_letters is not None:
                yield letters(messages, bad, split)

    def _note(self, messages: pa.RecordBatch, bad: list[Bad]) -> None:
        self._bad_records += len(bad)
        if self._work.counts_bad or self._work.dead_letters is not None:
            return
        place = f"{self._split.stream}/{self._split.topic}, partition {self._split.partition_id}"
        offset = messages.column("offset")[bad[0].row].as_py()
        raise BadRecordError(
            f"{place}, offset {offset}: {bad[0].reason}. --on-bad-record count passes over it, dlq:TOPIC keeps it"
        )
