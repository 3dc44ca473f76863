"""Log of an archive: numbered entries, each created exclusively by the first writer, and periodic snapshots."""

from __future__ import annotations

import logging
from typing import Final

from pyspark_headrace.jobs.tables.entries import DIRECTORY, Entry, number_of, path_of
from pyspark_headrace.jobs.tables.errors import ManifestError
from pyspark_headrace.jobs.tables.state import ArchiveState
from pyspark_headrace.jobs.tables.stores import Store

SNAPSHOT_EVERY: Final = 64
"""Number of entries per snapshot, which bounds the entries read one by one when an archive is opened."""
_log: Final = logging.getLogger(__name__)


class Manifest:
    """The log and the position up to which it was read. Not thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._state: ArchiveState | None = None
        self.newly_read: dict[str, int] = {}
        """Numbers of entries read one by one, by entry id. The caller may clear the map."""

    def read(self) -> ArchiveState:
        """Read all entries up to the current end.

        Raises:
            ManifestError: An entry is missing or damaged.
            StoreError: The log cannot be read.
        """
        known = 0
        if self._state is None:
            self._state, known = self._begin()
        while (content := self._store.read(path_of(self._state.version + 1))) is not None:
            number = self._state.version + 1
            entry = Entry.from_json(path_of(number), content)
            self._state = self._state.with_entry(number, entry)
            self.newly_read[entry.id] = number
        if self._state.version < known:
            missing = self._state.version + 1
            raise ManifestError(path_of(missing), f"is missing: there is an entry {known}")
        return self._state

    def append(self, entry: Entry) -> int | None:
        """Write the entry that follows the last one read.

        Returns:
            Its number; None if another writer has taken that number.

        Raises:
            ManifestError: The entry is inconsistent with earlier ones.
            StoreError: The outcome is unknown. If the store has no exclusive creation, nothing was written.
        """
        state = self.read() if self._state is None else self._state
        number = state.version + 1
        after = state.with_entry(number, entry)
        self._store.check_exclusive()
        if not self._store.create(path_of(number), entry.to_json()):
            return None
        self._state = after
        if number % SNAPSHOT_EVERY == 0:
            self._store.create(path_of(number, snapshot=True), after.to_json())
        return number

    def _begin(self) -> tuple[ArchiveState, int]:
        """Return the newest readable snapshot and the number of the last listed entry."""
        names = [number_of(found.path) for found in self._store.listing(DIRECTORY)]
        numbers = [name for name in names if name is not None]
        last = max((number for number, is_snapshot in numbers if not is_snapshot), default=0)
        for number in sorted((number for number, is_snapshot in numbers if is_snapshot), reverse=True):
            path = path_of(number, snapshot=True)
            try:
                return ArchiveState.from_json(path, number, self._store.read(path) or b""), last
            except ManifestError as error:
                # Snapshots are redundant: the entries hold the same information.
                _log.warning("%s; reading entries instead", error)
        return ArchiveState(), last
