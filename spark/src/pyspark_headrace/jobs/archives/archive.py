"""An archive as a table: what is in it, and how that changes."""

from __future__ import annotations

import datetime
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyspark_headrace.jobs.archives.entries import FOLDER, Entry
from pyspark_headrace.jobs.archives.errors import ArchiveError, ReplacedError
from pyspark_headrace.jobs.archives.files import ArchivedFile, PartitionKey, is_data_path
from pyspark_headrace.jobs.archives.manifest import Manifest
from pyspark_headrace.jobs.archives.state import REMOVED_FOR, ArchiveState
from pyspark_headrace.jobs.archives.stores import Store, Stored

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_headrace.jobs.archives.writing import FileOptions, RangeWriter

_ATTEMPTS: Final = 200
_WAIT_SECONDS: Final = (0.005, 0.5)
"""Before the second attempt at most, and before any."""


@dataclass(frozen=True)
class Committed:
    """A change that is in the archive now."""

    version: int
    """Number of its entry."""


@dataclass(frozen=True)
class AlreadyCommitted:
    """A micro-batch that was in the archive before: nothing has changed."""

    batch: int
    """The last one of its query that is in the archive."""


class Archive:
    """An archive of messages: files below a place, and the log that names those that count.

    Any number of processes may write to one archive. Each has an object of its own, which is not for several threads.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._manifest = Manifest(store)

    @classmethod
    def open(cls, uri: str, *, create: bool = False) -> Self:
        """Open an archive; one without entries is empty.

        Args:
            uri: A path, ``file:///…``, ``s3://…``, ``gs://…`` or ``az://…``.
            create: Make the folder if there is none.

        Raises:
            StoreError: There is no such place.
        """
        return cls(Store.open(uri, create=create))

    @property
    def uri(self) -> str:
        """Where it is."""
        return self.store.uri

    def state(self) -> ArchiveState:
        """What is in it now.

        Raises:
            ManifestError: An entry of the log is missing or damaged.
            StoreError: The log cannot be read.
        """
        return self._manifest.read()

    def last_batch(self, query: str) -> int | None:
        """The last micro-batch of a query that is in it."""
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
        """Change what is in the archive, all of it in one step or nothing.

        A micro-batch of a query is added once, however often it is asked for. Without anything to add or to remove,
        nothing is written.

        Args:
            add: Files that a `RangeWriter` has written.
            job: Who does it, for people.
            remove: Paths of files that do not count any more; they stay where they are until `orphans` has them.
            query: Id of the query.
            batch: Number of its micro-batch.

        Raises:
            OverlapError: Messages would be there twice.
            ReplacedError: A file that is to be removed does not count any more.
            ManifestError: An entry of the log is missing or damaged.
            StoreError: It may be committed or not; the same call may be repeated for a micro-batch.
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
                # The answer of the store was lost, and its client has asked again.
                return Committed(self._manifest.newly_read[entry.id])
            if query is not None and batch is not None and state.batches.get(query, -1) >= batch:
                return AlreadyCommitted(state.batches[query])
            if not entry.add and not entry.remove:
                return Committed(state.version)
            gone = [path for path in entry.remove if path not in state.files]
            if gone:
                raise ReplacedError(f"{gone[0]}, and {len(gone) - 1} others, do not count any more")
            state.check_apart(entry.add, entry.remove)
            number = self._manifest.append(entry)
            if number is not None:
                return Committed(number)
            first, longest = _WAIT_SECONDS
            time.sleep(random.uniform(0, min(first * 2**attempt, longest)))  # noqa: S311 - to meet nobody again
        raise ArchiveError(f"{self.uri}: others were quicker {_ATTEMPTS} times")

    def orphans(self, older_than: datetime.timedelta, *, now: datetime.datetime | None = None) -> list[Stored]:
        """Files that do not count: written by tasks that failed, or replaced.

        Only names that this package makes are among them, written at least so long ago; of those that did count, as
        long ago must it be that they were removed. A micro-batch that takes longer until it is committed loses its
        files.

        Args:
            older_than: At most `REMOVED_FOR`.
            now: Another time than that of the clock.

        Raises:
            ValueError: That is too long.
            ManifestError: An entry of the log is missing or damaged.
            StoreError: The archive cannot be read.
        """
        if older_than > REMOVED_FOR:
            raise ValueError(f"when files were removed is known for {REMOVED_FOR.days} days")
        limit = (now or datetime.datetime.now(datetime.UTC)) - older_than
        # In this order: what is committed in between is in the state.
        found = [
            *(stored for stored in self.store.listing() if is_data_path(stored.path)),
            *(
                stored
                for stored in self.store.unfinished()
                if is_data_path(stored.path) or stored.path.startswith(f"{FOLDER}/")
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
        """Delete what `orphans` has found.

        Raises:
            StoreError: Something cannot be deleted.
        """
        self.store.delete(paths)

    def writer(self, key: PartitionKey, end: int, options: FileOptions | None = None) -> RangeWriter:
        """Begin to write messages of a partition.

        Args:
            key: Which one.
            end: Behind the last offset that may come.
            options: How files are made.
        """
        from pyspark_headrace.jobs.archives.writing import FileOptions, RangeWriter  # noqa: PLC0415 - of tasks

        return RangeWriter(self.store, key, end, options or FileOptions())

    def batches(
        self, file: ArchivedFile, columns: Sequence[str] | None = None, *, batch_rows: int = 16_384
    ) -> Iterator[pa.RecordBatch]:
        """Read a file piece by piece. See `reading.batches`."""
        from pyspark_headrace.jobs.archives.reading import batches  # noqa: PLC0415 - of tasks

        return batches(self.store, file, columns, batch_rows=batch_rows)

    def read_table(self, file: ArchivedFile, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a file. See `reading.read_table`."""
        from pyspark_headrace.jobs.archives.reading import read_table  # noqa: PLC0415 - of tasks

        return read_table(self.store, file, columns)
