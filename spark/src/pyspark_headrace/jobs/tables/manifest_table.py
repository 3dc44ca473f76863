"""Native archive with a log of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark_headrace.jobs.tables.archive import Archive, Committed
from pyspark_headrace.jobs.tables.errors import StoreError
from pyspark_headrace.jobs.tables.table import Batch, Place, Reached, check, place_of


class ManifestTable:
    """Table of plain Parquet files; see `archives`."""

    columns: tuple[str, ...] = ()

    def __init__(self, uri: str, *, create: bool) -> None:
        """Open the archive.

        Args:
            uri: Location of the archive.
            create: Create a missing directory; otherwise a missing archive is empty.

        Raises:
            StoreError: The archive cannot be opened.
        """
        self.place = uri
        try:
            self._archive: Archive | None = Archive.open(uri, create=create)
        except StoreError:
            if create:
                raise
            self._archive = None

    def has(self, query: str, number: int) -> bool:
        """Return whether the log contains the micro-batch."""
        last = None if self._archive is None else self._archive.last_batch(query)
        return last is not None and last >= number

    def reached(self, places: Iterable[Place]) -> Mapping[Place, Reached]:
        """Return the end offsets of the archived files."""
        wanted = set(places)
        found: dict[Place, Reached] = {}
        partitions = {} if self._archive is None else self._archive.state().partitions
        for key, files in partitions.items():
            place = place_of(key)
            if place not in wanted:
                continue
            end = max(file.end for file in files)
            before = found.get(place)
            if before is None or (int(key.incarnation), _numbers(key.generation)) > (
                int(before.incarnation),
                _numbers(before.generation),
            ):
                found[place] = Reached(key.incarnation, key.generation, end)
        return found

    def commit(self, batch: Batch) -> bool:
        """Commit the files as one entry of the log."""
        if not self.has(batch.query, batch.number):
            check(batch, self.reached(batch.places))
        if self._archive is None:
            raise StoreError(f"{self.place}: the directory does not exist")
        done = self._archive.commit(batch.files, job=batch.job, query=batch.query, batch=batch.number)
        return isinstance(done, Committed)


def _numbers(generation: str) -> tuple[int, ...]:
    return tuple(int(part) for part in generation.split("."))
