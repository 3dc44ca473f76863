"""Scan of a range in a task, which skips unreadable messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace_proto.errors import Status
from pyspark_headrace.cluster.description import Key
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.columns.digest import digest, total
from pyspark_headrace.errors import DataLossError, IncompleteError, ServerRefusedError
from pyspark_headrace.jobs.audit.scanned import Piece, Scanned, Unreadable
from pyspark_headrace.jobs.running.tasks import packed
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.leader import Holder
from pyspark_headrace.read.reading import read_range
from pyspark_headrace.read.splits import Split

_SCHEMA: Final = pa.schema([RAW_SCHEMA.field(name) for name in ("offset", "timestamp", "key", "value")])
_FIRST_ONES: Final = 20
"""Number of examples per kind that a task reports. Further ones are only counted."""
_PROBE_MESSAGES: Final = 1 << 15
"""Initial number of messages per fetch while searching for an unreadable message."""
_UNREADABLE_MOST: Final = 1000
"""Maximum number of unreadable messages that a task skips one by one."""


@dataclass(frozen=True)
class Scanning:
    """Scan function for the tasks."""

    options: ReadOptions
    bounds: Mapping[Key, Sequence[int]]
    """File boundaries of the archive per partition, in order."""
    size_limit: int
    """Maximum size of a value in bytes."""

    def __call__(self, split: bytes) -> bytes:
        """Scan an encoded split; returns an encoded `Scanned`."""
        return packed(self.scanned(Split.from_bytes(split)))

    def scanned(self, split: Split) -> Scanned:
        """Scan a range.

        Raises:
            DataLossError: The partition was deleted or purged.
            ServerRefusedError: A node does not let this task read.
            UnreachableError: No server answers.
        """
        runtime().settle()
        found = _Found(split, self.bounds.get((split.topic, split.partition_id), ()), self.size_limit)
        options = self.options
        # Number of messages per fetch, and whether it is being narrowed down to the unreadable one.
        step, is_narrowing = split.end - split.start, False
        while found.position < split.end:
            until = min(found.position + step, split.end)
            try:
                for batch in read_range(replace(split, start=found.position, end=until), options, _SCHEMA):
                    found.take(batch)
                step = step if is_narrowing else 2 * step
            except (DataLossError, IncompleteError, ServerRefusedError) as error:
                if isinstance(error, ServerRefusedError) and error.status != Status.INVALID_MESSAGE_CHECKSUM:
                    raise
                if isinstance(error, DataLossError) and found.is_removed(self._first_offset(split, error)):
                    continue
                if until - found.position > 1:
                    step, is_narrowing = min(until - found.position, _PROBE_MESSAGES) // 2, True
                    # Damage is permanent: one retry is enough.
                    options = replace(self.options, retry_max=1)
                    continue
                found.pass_over(str(error))
                step, is_narrowing, options = 1, False, self.options
                if found.result.unreadable_count >= _UNREADABLE_MOST:
                    found.give_up()
        return found.result

    def _first_offset(self, split: Split, error: DataLossError) -> int:
        bounds = Holder(split, self.options).bounds()
        if (bounds.incarnation, bounds.purge_epoch) != (split.incarnation, split.purge_epoch):
            raise error
        return bounds.first_offset


class _Found:
    def __init__(self, split: Split, bounds: Sequence[int], size_limit: int) -> None:
        self.result = Scanned(
            stream=split.stream, topic=split.topic, partition=split.partition_id, start=split.start, end=split.end
        )
        self.position = split.start
        self._bounds = [bound for bound in bounds if split.start < bound < split.end]
        self._size_limit = size_limit
        self._reason = ""

    def take(self, batch: pa.RecordBatch) -> None:
        offsets = batch.column("offset").to_numpy()
        times = batch.column("timestamp").cast(pa.int64()).to_numpy()
        result = self.result
        if result.rows == 0:
            result.first_offset, result.first_timestamp, result.last_timestamp = (
                int(offsets[0]),
                int(times[0]),
                int(times[0]),
            )
        steps = np.diff(times, prepend=result.last_timestamp)
        for index in np.flatnonzero(steps < 0):
            result.backwards_count += 1
            if len(result.backwards) < _FIRST_ONES:
                result.backwards.append((int(offsets[index]), int(-steps[index])))
        self._keys(batch.column("key"), offsets)
        self._sizes(batch.column("value"), offsets)
        for part in self._parts(batch, offsets):
            piece = part.column("offset")
            of_it = digest(part)
            result.digest = total((result.digest, of_it))
            self._add_piece(piece[0].as_py(), piece[-1].as_py() + 1, part, of_it)
        result.rows += batch.num_rows
        result.last_timestamp = int(times[-1])
        self.position = int(offsets[-1]) + 1

    def is_removed(self, first_offset: int) -> bool:
        """Continue at the start of the log if retention has passed the current offset. Returns whether it has."""
        if first_offset <= self.position:
            return False
        until = min(first_offset, self.result.end)
        self.result.removed += until - self.position
        self.position = until
        return True

    def pass_over(self, reason: str) -> None:
        """Skip an unreadable message."""
        found = self.result.unreadable
        if found and found[-1].end == self.position:
            found[-1] = found[-1]._replace(end=self.position + 1)
        else:
            found.append(Unreadable(self.position, self.position + 1, reason))
        self.position += 1

    def give_up(self) -> None:
        """Skip the rest of the range."""
        if self.position < self.result.end:
            reason = f"after {_UNREADABLE_MOST} messages that cannot be read the others were not looked at"
            self.result.unreadable.append(Unreadable(self.position, self.result.end, reason))
            self.position = self.result.end

    def _keys(self, keys: pa.Array, offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        if keys.null_count:
            if not self.result.null_keys:
                self.result.first_null_key = int(offsets[pc.index(keys.is_null(), True).as_py()])
            self.result.null_keys += keys.null_count

    def _sizes(self, values: pa.Array, offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        sizes = pc.binary_length(values).to_numpy()
        for index in np.flatnonzero(sizes > self._size_limit):
            self.result.large_count += 1
            if len(self.result.large) < _FIRST_ONES:
                self.result.large.append((int(offsets[index]), int(sizes[index])))

    def _parts(
        self, batch: pa.RecordBatch, offsets: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> list[pa.RecordBatch]:
        inside = [int(np.searchsorted(offsets, bound)) for bound in self._bounds if offsets[0] < bound <= offsets[-1]]
        cuts = sorted({0, *inside, batch.num_rows})
        return [batch.slice(begin, end - begin) for begin, end in pairwise(cuts)]

    def _add_piece(self, start: int, end: int, part: pa.RecordBatch, of_it: int) -> None:
        pieces = self.result.pieces
        if pieces and pieces[-1].end == start and start not in self._bounds:
            last = pieces[-1]
            added = total((last.digest, of_it))
            pieces[-1] = last._replace(end=end, rows=last.rows + part.num_rows, digest=added)
        else:
            at = part.column("timestamp")[0].value
            pieces.append(Piece(start, end, part.num_rows, of_it, at))
