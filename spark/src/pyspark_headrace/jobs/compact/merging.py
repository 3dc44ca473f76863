"""Merge of several files into one, in a task."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_headrace.columns.digest import digest, total
from pyspark_headrace.jobs.compact.planning import Group
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.errors import DamagedFileError, FileError
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile
from pyspark_headrace.jobs.tables.reading import batches, opened
from pyspark_headrace.jobs.tables.writing import FileOptions, FileWriter


@dataclass(frozen=True)
class Merged:
    """Result of merging a group."""

    file: ArchivedFile | None
    """The new file; None if the group is left unchanged."""
    path: str = ""
    """Path of the file that prevents the merge, if any."""
    reason: str = ""
    """Reason for users."""


def merged(uri: str, group: Group) -> Merged:
    """Merge files into one, and compare each of them with its digest.

    Raises:
        StoreError: The new file cannot be written, or the files cannot be read.
    """
    archive = Archive.open(uri)
    writer: FileWriter | None = None
    try:
        with opened(archive.store, group.files[0]) as parquet:
            schema = parquet.schema_arrow.remove_metadata()
        # The output is never divided: the plan goes by the sizes of the input files.
        options = FileOptions(target_bytes=2 * group.bytes, mode=group.files[0].mode)
        writer = FileWriter(archive.store, group.key, group.files[-1].end, options, group.files[0].date, schema)
        for file in group.files:
            if not _copied(archive, file, schema, writer):
                writer.abandon()
                return Merged(None, file.path, "its columns are not those of its neighbours")
        return Merged(writer.close())
    except FileError as error:
        if writer is not None:
            writer.abandon()
        return Merged(None, error.path, str(error))


def _copied(archive: Archive, file: ArchivedFile, schema: pa.Schema, writer: FileWriter) -> bool:
    found = 0
    is_first = True
    for rows in batches(archive.store, file):
        if is_first and not rows.schema.remove_metadata().equals(schema):
            return False
        # The digest cannot be recomputed from decoded values, so the digest of the whole file is added with its first
        # rows.
        said = file.digest if is_first else 0
        of_them = digest(rows) if file.mode == RAW else said
        found = total((found, of_them))
        is_first = False
        writer.add(rows, rows, of_them)
    if found != file.digest:
        raise DamagedFileError(file.path, f"digest of its messages is {found:016x}, and {file.digest:016x} in the log")
    return True
