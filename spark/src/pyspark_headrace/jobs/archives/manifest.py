"""The log of an archive: numbered entries, each written once by whoever comes first, and snapshots to begin with."""

from __future__ import annotations

import logging
from typing import Final

from pyspark_headrace.jobs.archives.entries import FOLDER, Entry, number_of, path_of
from pyspark_headrace.jobs.archives.errors import ManifestError
from pyspark_headrace.jobs.archives.state import ArchiveState
from pyspark_headrace.jobs.archives.stores import Store

SNAPSHOT_EVERY: Final = 64
"""So many entries at most are read one by one by whoever opens an archive."""
_log: Final = logging.getLogger(__name__)


class Manifest:
    """The log, and how much of it was read. Not for several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._state: ArchiveState | None = None
        self.newly_read: dict[str, int] = {}
        """Numbers of entries by their ids, of those that were read one by one; whoever asks may clear it."""

    def read(self) -> ArchiveState:
        """Everything up to the last entry that is there now.

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
        """Write the entry that comes next after what was read.

        Returns:
            Its number; None: somebody else has written that one.

        Raises:
            ManifestError: The entry does not fit those before it.
            StoreError: It may be written or not. It is not where the store would let two writers have the same number.
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
        """The newest snapshot that can be read, and which entry is the last one in a listing."""
        names = [number_of(found.path) for found in self._store.listing(FOLDER)]
        numbers = [name for name in names if name is not None]
        last = max((number for number, is_snapshot in numbers if not is_snapshot), default=0)
        for number in sorted((number for number, is_snapshot in numbers if is_snapshot), reverse=True):
            path = path_of(number, snapshot=True)
            try:
                return ArchiveState.from_json(path, number, self._store.read(path) or b""), last
            except ManifestError as error:
                # Everything that it says is in the entries, too.
                _log.warning("%s; reading entries instead", error)
        return ArchiveState(), last
