"""The layout in which earlier releases have written archives: the same files, and a log of our own that lists them.

The log is a sequence of numbered entries, each with the files that it adds and the paths that it removes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark_headrace.jobs.tables.errors import ArchiveError, StoreError
from pyspark_headrace.jobs.tables.files import ArchivedFile
from pyspark_headrace.jobs.tables.stores import Store

_DIRECTORY: Final = "_headrace/manifest"
_NAME: Final = re.compile(rf"{_DIRECTORY}/(\d{{20}})\.json")
_FILE: Final = re.compile(r"stream=[^/]+/topic=[^/]+/date=[^/]+/p[0-9a-f-]+\.parquet")
_VERSION: Final = 1


@dataclass
class EarlierArchive:
    """Contents of such an archive."""

    files: dict[str, ArchivedFile] = field(default_factory=dict)
    """Files by path."""
    batches: dict[str, int] = field(default_factory=dict)
    """Last micro-batch of each query."""


def is_earlier_layout(uri: str) -> bool:
    """Return whether a location has such an archive.

    Raises:
        StoreError: The location cannot be read.
    """
    try:
        store = Store.open(uri)
    except StoreError:
        # A directory that does not exist yet. A store that cannot be reached is so for the table, too.
        return False
    return store.read(_path(1)) is not None


def earlier_archive(store: Store) -> EarlierArchive:
    """Read such an archive.

    Raises:
        ArchiveError: The log is incomplete or damaged.
        StoreError: The log cannot be read.
    """
    # Snapshots of the log repeat what its entries have.
    numbers = {int(match[1]) for found in store.listing(_DIRECTORY) if (match := _NAME.fullmatch(found.path))}
    archive = EarlierArchive()
    for number in range(1, max(numbers, default=0) + 1):
        try:
            _apply(json.loads(store.read(_path(number)) or b""), archive)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArchiveError(f"{store.uri}: {_path(number)} is missing or damaged: {error}") from None
    return archive


def _apply(entry: dict[str, Any], archive: EarlierArchive) -> None:
    if entry["v"] != _VERSION:
        raise ValueError(f"it is of version {entry['v']!r}")
    for path in entry["remove"]:
        del archive.files[path]
    for described in entry["add"]:
        file = ArchivedFile(**{**described, "digest": int(described["digest"], 16)})
        numbers = (file.partition, file.start, file.end, file.rows, file.bytes, file.last_timestamp)
        if _FILE.fullmatch(file.path) is None or any(type(number) is not int for number in numbers):
            raise ValueError(f"it adds {described!r}")
        archive.files[file.path] = file
    if entry["query"] is not None:
        archive.batches[entry["query"]] = max(entry["batch"], archive.batches.get(entry["query"], -1))


def _path(number: int) -> str:
    return f"{_DIRECTORY}/{number:020d}.json"
