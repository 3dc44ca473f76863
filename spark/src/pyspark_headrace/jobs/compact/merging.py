"""Making one file of several, in a task."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_headrace.digest import digest, total
from pyspark_headrace.jobs.archives.archive import Archive
from pyspark_headrace.jobs.archives.errors import DamagedFileError, FileError
from pyspark_headrace.jobs.archives.files import RAW, ArchivedFile
from pyspark_headrace.jobs.archives.reading import batches, opened
from pyspark_headrace.jobs.archives.writing import FileOptions, FileWriter
from pyspark_headrace.jobs.compact.planning import Group


@dataclass(frozen=True)
class Merged:
    """What became of a group."""

    file: ArchivedFile | None
    """The new file; None: there is none, and the group is left as it is."""
    path: str = ""
    """Of the file that is the reason, if one is."""
    reason: str = ""
    """For people."""


def merged(uri: str, group: Group) -> Merged:
    """Write one file with the messages of several, each of which is compared with its digest on the way.

    Raises:
        StoreError: It cannot be written, or the files cannot be read.
    """
    archive = Archive.open(uri)
    writer: FileWriter | None = None
    try:
        with opened(archive.store, group.files[0]) as parquet:
            schema = parquet.schema_arrow.remove_metadata()
        # Never cut: planned by what the files have.
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
        # Of decoded values nothing can be said any more: the digest of the whole file goes with its first rows.
        said = file.digest if is_first else 0
        of_them = digest(rows) if file.mode == RAW else said
        found = total((found, of_them))
        is_first = False
        writer.add(rows, rows, of_them)
    if found != file.digest:
        raise DamagedFileError(file.path, f"digest of its messages is {found:016x}, and {file.digest:016x} in the log")
    return True
