"""Finding of files: new ones, known ones under other names, and others in their place."""

from __future__ import annotations

import fnmatch
import glob
import logging
import time
from pathlib import Path

from headrace_connectors.sources.files.followed import (
    Entry,
    OpenFile,
    has_read,
    identity,
    is_copy,
    may_become_copy,
    probes,
    regular_status,
    renamed_path,
)
from headrace_connectors.sources.files.readers import LineReader, Reader
from headrace_connectors.sources.files.settings import FilesSettings

_log = logging.getLogger(__name__)


class Tracking:
    """Finds files, and opens them.

    Args:
        settings: The patterns.
        reader: Knows more of whether a file was replaced.
        open_files: Open files by device and inode; those that are found are added. An open file keeps its inode.
    """

    def __init__(self, settings: FilesSettings, reader: Reader, open_files: dict[tuple[int, int], OpenFile]) -> None:
        self._settings = settings
        self._reader = reader
        self._open_files = open_files
        self._matched: set[tuple[int, int]] = set()
        # Found under names that no pattern has.
        self._renamed: set[tuple[int, int]] = set()
        self._refused: set[str] = set()

    def look(self, entries: list[Entry], *, at_end: bool) -> bool:
        """Bring entries up to date: new ones have the number 0. Return whether anything has changed.

        Args:
            entries: The entries; changed in place.
            at_end: True if new files are read from their end on.
        """
        by_identity = {(entry.device, entry.inode): entry for entry in entries}
        self._matched = set()
        # A copy is known by what its original was before that was truncated.
        before = entries[:]
        is_changed = False
        for path in self._paths():
            status = regular_status(path)
            if status is None:
                continue
            key = identity(status)
            if key in self._matched:
                # A second name of the same file.
                continue
            file = self._opened(path, key)
            if file is None:
                continue
            self._matched.add(key)
            self._renamed.discard(key)
            file.look(time.monotonic())
            entry = by_identity.get(key)
            if entry is not None and self._is_same(file, entry):
                if entry.path != path:
                    entry.path, is_changed = path, True
                continue
            if entry is not None:
                _log.info("%s was truncated or replaced, and is read from its beginning", path)
                entries.remove(entry)
                is_changed = True
            new = self._new(path, key, file, before, at_end=at_end)
            if new is not None:
                entries.append(new)
                is_changed = True
        return self._without_lost(entries) or is_changed

    def is_gone(self, entry: Entry) -> bool:
        """Return whether no path that is read leads to a file any more: it was renamed or deleted."""
        key = (entry.device, entry.inode)
        if key in self._matched:
            return False
        if key in self._renamed:
            return True
        try:
            # A directory that cannot be listed now matches nothing, and has the file.
            return identity(Path(entry.path).stat()) != key
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False

    def sizes(self) -> dict[tuple[int, int], int]:
        """Return the sizes of the files that there are now, by device and inode."""
        found = [status for path in self._paths() if (status := regular_status(path)) is not None]
        return {identity(status): status.st_size for status in found}

    def _paths(self) -> list[str]:
        found = {path for pattern in self._settings.paths for path in _matches(pattern)}
        return sorted(path for path in found if not self._is_excluded(path) and self._has_text(path))

    def _has_text(self, path: str) -> bool:
        """Return whether a path is UTF-8: the state and the headers of records have no form for others."""
        if _is_text(path):
            return True
        if path not in self._refused:
            self._refused.add(path)
            _log.warning("%r is left out: its name is not UTF-8; rename it", path)
        return False

    def _is_excluded(self, path: str) -> bool:
        return any(
            fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(Path(path).name, pattern)
            for pattern in self._settings.exclude
        )

    def _opened(self, path: str, key: tuple[int, int]) -> OpenFile | None:
        """Return the open file of a path; None if it cannot be opened, or is another one by now."""
        if key in self._open_files:
            return self._open_files[key]
        try:
            file = OpenFile(path)
        except OSError as error:
            if path not in self._refused:
                self._refused.add(path)
                _log.warning("%s cannot be read: %s; it is left out until it can be", path, error.strerror)
            return None
        self._refused.discard(path)
        if identity(file.status) != key:
            file.close()
            return None
        self._open_files[key] = file
        return file

    def _is_same(self, file: OpenFile, entry: Entry) -> bool:
        return not self._reader.is_changed(file, entry) and file.is_same(entry)

    def _new(
        self, path: str, key: tuple[int, int], file: OpenFile, entries: list[Entry], *, at_end: bool
    ) -> Entry | None:
        """Return an entry for a new file; None: it is empty, or may be a copy that is not complete."""
        if file.status.st_size == 0:
            return None
        new = Entry(number=0, path=path, device=key[0], inode=key[1])
        if at_end:
            new.offset = file.status.st_size
            new.head, new.tail = probes(file, new.offset)
            if isinstance(self._reader, LineReader):
                newline = self._reader.shape.newline
                last = file.read(max(0, new.offset - len(newline)), len(newline))
                new.is_within_line = new.offset > 0 and last != newline
            return new
        if not self._settings.skip_copies:
            return new
        is_quiet = file.quiet_seconds(time.monotonic()) >= self._settings.complete_after.seconds
        for entry in entries:
            if is_copy(file, entry):
                _log.info("%s is a copy of what %s was, and is read on after that", path, entry.path)
                new.offset, new.line, new.is_within_line = entry.offset, entry.line, entry.is_within_line
                new.head, new.tail = entry.head, entry.tail
                return new
            original = self._open_files.get((entry.device, entry.inode))
            if (
                original is not None
                and original is not file
                and not is_quiet
                and may_become_copy(file, original, entry)
            ):
                return None
        return new

    def _without_lost(self, entries: list[Entry]) -> bool:
        """Remove entries of files that are nowhere; open those that were renamed while nothing ran."""
        is_changed = False
        for entry in entries[:]:
            key = (entry.device, entry.inode)
            if key in self._matched:
                continue
            file = self._open_files.get(key)
            if file is None:
                path = renamed_path(entry)
                if path == entry.path or not Path(entry.path).parent.is_dir():
                    # It cannot be opened, or its directory is not there, or cannot be read now.
                    continue
                if path is not None:
                    file = self._opened(path, key)
                    if file is None:
                        # It cannot be opened now.
                        continue
                    self._renamed.add(key)
                    if _is_text(path):
                        entry.path, is_changed = path, True
            else:
                file.look(time.monotonic())
            if file is None or not self._is_same(file, entry):
                _log.info("%s is gone, or was replaced, at offset %d", entry.path, entry.offset)
                entries.remove(entry)
                self._reader.forget(entry.number)
                is_changed = True
        return is_changed


def delete_file(entry: Entry) -> bool:
    """Delete a file, unless it has grown, or another one has its place and inode; return whether it is gone.

    Raises:
        OSError: It cannot be read or deleted.
    """
    status = regular_status(entry.path)
    if status is None or identity(status) != (entry.device, entry.inode):
        return True
    file = OpenFile(entry.path)
    try:
        # An inode is used again when its file is gone, and the new file has not been read.
        if file.status.st_size != entry.offset or not has_read(file, entry):
            return False
    finally:
        file.close()
    Path(entry.path).unlink()
    return True


def _is_text(path: str) -> bool:
    # Bytes that are not UTF-8 are surrogates.
    return path.isascii() or path.encode(errors="ignore").decode() == path


def _matches(pattern: str) -> list[str]:
    # `Path.glob` has no absolute patterns.
    return glob.glob(pattern, recursive=True)  # noqa: PTH207
