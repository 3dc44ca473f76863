"""An archive as a table: state and commits."""

from __future__ import annotations

import datetime
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyspark_headrace.jobs.tables.entries import DIRECTORY, Entry
from pyspark_headrace.jobs.tables.errors import ArchiveError, ReplacedError
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey, is_data_path
from pyspark_headrace.jobs.tables.manifest import Manifest
from pyspark_headrace.jobs.tables.state import REMOVED_FOR, ArchiveState
from pyspark_headrace.jobs.tables.stores import Store, Stored

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_headrace.jobs.tables.writing import FileOptions, RangeWriter

_ATTEMPTS: Final = 200
_WAIT_SECONDS: Final = (0.005, 0.5)
"""Maximum back-off in seconds: before the second attempt, and before any later one."""


@dataclass(frozen=True)
class Committed:
    """Result of a commit that has changed the archive."""

    version: int
    """Number of the log entry."""


@dataclass(frozen=True)
class AlreadyCommitted:
    """Result for a micro-batch that was committed before: no change."""

    batch: int
    """Last committed micro-batch of the query."""


class Archive:
    """An archive of messages: Parquet files below a location, and the log that lists the committed ones.

    Any number of processes may write to one archive. Each needs an object of its own, which is not thread-safe.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._manifest = Manifest(store)

    @classmethod
    def open(cls, uri: str, *, create: bool = False) -> Self:
        """Open an archive; one without log entries is empty.

        Args:
            uri: A path, ``file:///…``, ``s3://…``, ``gs://…`` or ``az://…``.
            create: Create a missing directory.

        Raises:
            StoreError: The location does not exist.
        """
        return cls(Store.open(uri, create=create))

    @property
    def uri(self) -> str:
        """URI of the archive."""
        return self.store.uri

    def state(self) -> ArchiveState:
        """Read the current state.

        Raises:
            ManifestError: An entry of the log is missing or damaged.
            StoreError: The log cannot be read.
        """
        return self._manifest.read()

    def last_batch(self, query: str) -> int | None:
        """Return the number of the last committed micro-batch of a query."""
        return self.state().batches.get(query)

    def commit(
        self,
        add: Iterable[ArchivedFile],
        *,
        job: str,
        remove: Iterable[str] = (),
        query: str | None = None,
        batch: int | None = None,
    ) -> Committed | AlreadyCommitted:
        """Commit a change of the archive atomically.

        A micro-batch of a query is added once, however often the call is repeated. Without files to add or remove,
        nothing is written.

        Args:
            add: Files written by a `RangeWriter`.
            job: Name of the writing job, for users.
            remove: Paths of files to remove from the log; the objects stay until `orphans` lists them.
            query: Id of the query.
            batch: Number of its micro-batch.

        Raises:
            OverlapError: Messages would be archived twice.
            ReplacedError: A file to be removed is not in the log any more.
            ManifestError: An entry of the log is missing or damaged.
            StoreError: The outcome is unknown; for a micro-batch the same call may be repeated.
        """
        entry = Entry(
            id=str(uuid.uuid4()),
            at=datetime.datetime.now(datetime.UTC),
            job=job,
            query=query,
            batch=batch,
            add=tuple(add),
            remove=tuple(remove),
        )
        self._manifest.newly_read.clear()
        for attempt in range(_ATTEMPTS):
            state = self._manifest.read()
            if entry.id in self._manifest.newly_read:
                # The response of the store was lost, and its client has retried the write.
                return Committed(self._manifest.newly_read[entry.id])
            if query is not None and batch is not None and state.batches.get(query, -1) >= batch:
                return AlreadyCommitted(state.batches[query])
            if not entry.add and not entry.remove:
                return Committed(state.version)
            gone = [path for path in entry.remove if path not in state.files]
            if gone:
                raise ReplacedError(f"{gone[0]}, and {len(gone) - 1} others, are no longer referenced")
            state.check_apart(entry.add, entry.remove)
            number = self._manifest.append(entry)
            if number is not None:
                return Committed(number)
            first, longest = _WAIT_SECONDS
            time.sleep(random.uniform(0, min(first * 2**attempt, longest)))  # noqa: S311 - to meet nobody again
        raise ArchiveError(f"{self.uri}: other writers committed first, {_ATTEMPTS} times")

    def orphans(self, older_than: datetime.timedelta, *, now: datetime.datetime | None = None) -> list[Stored]:
        """List uncommitted files: written by tasks that have failed, or replaced.

        Only files with names of this package are listed, and only if they were written at least `older_than` ago. A
        file that was removed from the log is listed if the removal is at least as old. A micro-batch that takes longer
        than `older_than` to commit loses its files.

        Args:
            older_than: Minimum age, at most `REMOVED_FOR`.
            now: Time to use instead of the clock.

        Raises:
            ValueError: The age is too large.
            ManifestError: An entry of the log is missing or damaged.
            StoreError: The archive cannot be read.
        """
        if older_than > REMOVED_FOR:
            raise ValueError(f"when files were removed is known for {REMOVED_FOR.days} days")
        limit = (now or datetime.datetime.now(datetime.UTC)) - older_than
        # List files before reading the state: a file committed in between is in the state.
        found = [
            *(stored for stored in self.store.listing() if is_data_path(stored.path)),
            *(
                stored
                for stored in self.store.unfinished()
                if is_data_path(stored.path) or stored.path.startswith(f"{DIRECTORY}/")
            ),
        ]
        state = self.state()
        return [
            stored
            for stored in found
            if stored.path not in state.files
            and stored.modified < limit
            and state.removed.get(stored.path, stored.modified) < limit
        ]

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files found by `orphans`.

        Raises:
            StoreError: A file cannot be deleted.
        """
        self.store.delete(paths)

    def writer(self, key: PartitionKey, end: int, options: FileOptions | None = None) -> RangeWriter:
        """Create a writer for messages of a partition.

        Args:
            key: The partition.
            end: Offset after the last possible message.
            options: File options.
        """
        from pyspark_headrace.jobs.tables.writing import FileOptions, RangeWriter  # noqa: PLC0415 - of tasks

        return RangeWriter(self.store, key, end, options or FileOptions())

    def batches(
        self, file: ArchivedFile, columns: Sequence[str] | None = None, *, batch_rows: int = 16_384
    ) -> Iterator[pa.RecordBatch]:
        """Read a file in batches. See `reading.batches`."""
        from pyspark_headrace.jobs.tables.reading import batches  # noqa: PLC0415 - of tasks

        return batches(self.store, file, columns, batch_rows=batch_rows)

    def read_table(self, file: ArchivedFile, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a file. See `reading.read_table`."""
        from pyspark_headrace.jobs.tables.reading import read_table  # noqa: PLC0415 - of tasks

        return read_table(self.store, file, columns)
