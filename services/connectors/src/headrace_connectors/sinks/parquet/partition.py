"""Files of one partition, and the manifests that say which of them count.

The files of a table are below its directory, in a directory with the same path as that of the partition, which has the
manifests of all tables. `manifest.json` has the position and the newest files. When it has many, the oldest ones become
a part of their own, `_manifests/OFFSET.json`, which never changes again: a flush writes as much after a year as on the
first day.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace_chassis.directories import locked, make_directory, replace_file, sync_directory
from headrace_connectors.contract import ConnectorError
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.sinks.parquet.columns import OFFSET
from headrace_connectors.sinks.parquet.tables import is_table_name

_FORMAT: Final = 3
_FORMATS_READ: Final = (1, 2, 3)
MANIFEST: Final = "manifest.json"
PARTS: Final = "_manifests"
"""Directory of the older parts. Readers of Parquet leave names with this beginning out."""
PART_FILES: Final = 1000
"""Number of files of a part."""


class File(msgspec.Struct):
    """A file that counts."""

    name: str
    rows_count: int
    first_offset: int
    last_offset: int
    table: str | None = None
    """Name of the table; None: the directory of the partition itself."""


class Part(msgspec.Struct):
    """Older files of a partition."""

    format: int = _FORMAT
    files: list[File] = msgspec.field(default_factory=list)


class Manifest(msgspec.Struct):
    """Position of a partition, and its newest files. Format 1 had all files here, and format 2 had no tables."""

    format: int = _FORMAT
    next_offset: int = 0
    """Offset to continue at."""
    parts_end: int = 0
    """Files that begin before this offset are in parts; a part that begins at it or after it does not count."""
    files: list[File] = msgspec.field(default_factory=list)


class PartitionFiles:
    """The directory of a partition.

    A file is complete, synced and named before the manifest is replaced, and counts from then on; likewise a part. The
    directory is locked meanwhile, and messages below the offset of the manifest are left out: two processes write
    nothing twice.

    Args:
        directory: The directory, `stream=S/topic=T/partition=N` below that of the sink.
        compression: Compression of the files.
    """

    def __init__(self, directory: Path, compression: str) -> None:
        self._directory = directory
        self._root = directory.parents[2]
        self._compression = compression

    def position(self) -> int | None:
        """Return the offset to continue at, after removing files that do not count; None if nothing is written.

        Raises:
            DirectoryInUse: Another process writes here at this moment.
            ConnectorError: The manifest cannot be read.
            OSError: The disk cannot be read.
        """
        if not self._directory.is_dir():
            return None
        with locked(self._directory):
            manifest = self._manifest()
            for directory in self._directories():
                for path in directory.iterdir():
                    if path.suffix == ".unfinished" or _begins_at_or_after(path, manifest.next_offset):
                        path.unlink()
        return manifest.next_offset or None

    def _directories(self) -> Iterator[Path]:
        """Find the directories with files of this partition, of tables that the settings do not name any more, too."""
        yield self._directory
        for path in self._root.iterdir():
            if is_table_name(path.name) and (directory := self._directory_of(path.name)).is_dir():
                yield directory

    def _directory_of(self, table: str | None) -> Path:
        if table is None:
            return self._directory
        return self._root / table / self._directory.relative_to(self._root)

    def paths(self) -> list[Path]:
        """Return all files that count, in the order of their offsets. Raises as `position`."""
        manifest = self._manifest()
        parts = [
            path for path in sorted((self._directory / PARTS).glob("*.json")) if int(path.stem) < manifest.parts_end
        ]
        files = [file for path in parts for file in _decoded(path, path.read_bytes(), Part).files]
        return [self._directory_of(file.table) / file.name for file in (*files, *manifest.files)]

    def store(self, tables: Mapping[str | None, pa.Table], next_offset: int) -> None:
        """Write a file for each table, and the manifest. Raises as `position`.

        Args:
            tables: Rows by the name of the table; None: the directory of the partition itself.
            next_offset: Offset to continue at.
        """
        make_directory(self._directory)
        with locked(self._directory):
            manifest = self._manifest()
            if next_offset <= manifest.next_offset:
                return
            new = [self._written(name, rows, manifest.next_offset) for name, rows in tables.items()]
            # The offset that a part begins at decides whether the part counts.
            manifest.files += sorted((file for file in new if file is not None), key=attrgetter("first_offset"))
            while len(manifest.files) > PART_FILES:
                self._separate(manifest)
            manifest.next_offset = next_offset
            _replace(self._directory / MANIFEST, manifest)

    def _separate(self, manifest: Manifest) -> None:
        """Make a part of the oldest files. It counts when the manifest is replaced, and is written again otherwise."""
        files, manifest.files = manifest.files[:PART_FILES], manifest.files[PART_FILES:]
        directory = self._directory / PARTS
        make_directory(directory)
        _replace(directory / f"{files[0].first_offset:020}.json", Part(files=files))
        manifest.parts_end = manifest.files[0].first_offset

    def _manifest(self) -> Manifest:
        path = self._directory / MANIFEST
        try:
            encoded = path.read_bytes()
        except FileNotFoundError:
            return Manifest()
        manifest = _decoded(path, encoded, Manifest)
        manifest.format = _FORMAT
        return manifest

    def _written(self, table: str | None, rows: pa.Table, start: int) -> File | None:
        """Write the rows from an offset on; None: there are none."""
        rows = rows.filter(pc.field(OFFSET) >= start)
        if not rows.num_rows:
            return None
        offsets = rows.column(OFFSET)
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        directory = self._directory_of(table)
        if table is not None:
            make_directory(directory)
        path = directory / f"{first:020}.parquet"
        unfinished = path.with_name(path.name + ".unfinished")
        with unfinished.open("wb") as file:
            pq.write_table(rows, file, compression=self._compression)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
        sync_directory(directory)
        return File(path.name, rows.num_rows, first, last, table)


def _begins_at_or_after(path: Path, offset: int) -> bool:
    """Return True if this is a file of messages that are not in the manifest: a killed process has left it."""
    return path.suffix == ".parquet" and path.stem.isdecimal() and int(path.stem) >= offset


def _replace(path: Path, content: Manifest | Part) -> None:
    replace_file(path, msgspec.json.format(msgspec.json.encode(content)).decode())


Content = TypeVar("Content", Manifest, Part)


def _decoded(path: Path, encoded: bytes, kind: type[Content]) -> Content:
    try:
        content = msgspec.json.decode(encoded, type=kind)
    except NOT_JSON as error:
        raise ConnectorError(f"{path} is no manifest: {error}; restore it, or move the directory away") from error
    if content.format not in _FORMATS_READ:
        raise ConnectorError(
            f"{path} has format {content.format}, this release reads formats {', '.join(map(str, _FORMATS_READ))}"
        )
    return content
