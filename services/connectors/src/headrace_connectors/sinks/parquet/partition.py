"""Files of one partition, and the manifest that says which of them count."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace_chassis.directories import locked, make_directory, replace_file, sync_directory
from headrace_connectors.contract import ConnectorError
from headrace_connectors.sinks.parquet.columns import OFFSET

_FORMAT: Final = 1
MANIFEST: Final = "manifest.json"


class File(msgspec.Struct):
    """A file that counts."""

    name: str
    rows_count: int
    first_offset: int
    last_offset: int


class Manifest(msgspec.Struct):
    """Files of a partition that count, and its position."""

    format: int = _FORMAT
    next_offset: int = 0
    """Offset to continue at."""
    files: list[File] = msgspec.field(default_factory=list)


class PartitionFiles:
    """The directory of a partition.

    A file is complete, synced and named before the manifest is replaced, and counts from then on. The directory is
    locked meanwhile, and messages below the offset of the manifest are left out: two processes write nothing twice.
    """

    def __init__(self, directory: Path, compression: str) -> None:
        self._directory = directory
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
            names = {file.name for file in manifest.files}
            for path in self._directory.iterdir():
                if path.suffix == ".unfinished" or (path.suffix == ".parquet" and path.name not in names):
                    path.unlink()
        return manifest.next_offset or None

    def store(self, table: pa.Table | None, next_offset: int) -> None:
        """Write a file and the manifest. Raises as `position`."""
        make_directory(self._directory)
        with locked(self._directory):
            manifest = self._manifest()
            if next_offset <= manifest.next_offset:
                return
            if table is not None:
                table = table.filter(pc.field(OFFSET) >= manifest.next_offset)
            if table is not None and table.num_rows:
                manifest.files.append(self._written(table))
            manifest.next_offset = next_offset
            replace_file(self._directory / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)).decode())

    def _manifest(self) -> Manifest:
        path = self._directory / MANIFEST
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return Manifest()
        except msgspec.MsgspecError as error:
            raise ConnectorError(f"{path} is no manifest: {error}; restore it, or move the directory away") from error
        if manifest.format != _FORMAT:
            raise ConnectorError(f"{path} has format {manifest.format}, this release reads format {_FORMAT}")
        return manifest

    def _written(self, table: pa.Table) -> File:
        offsets = table.column(OFFSET)
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        path = self._directory / f"{first:020}.parquet"
        unfinished = path.with_name(path.name + ".unfinished")
        with unfinished.open("wb") as file:
            pq.write_table(table, file, compression=self._compression)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
        sync_directory(self._directory)
        return File(path.name, table.num_rows, first, last)
