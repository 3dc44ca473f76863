"""Entries of an archive's log: one per commit."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark_headrace.jobs.tables.errors import ManifestError
from pyspark_headrace.jobs.tables.files import ArchivedFile

VERSION: Final = 1
"""Version of the format of entries and snapshots."""
DIRECTORY: Final = "_headrace/manifest"
"""Directory of the log below the archive. Parquet readers skip names with a leading underscore."""
_NAME: Final = re.compile(r"(\d{20})(\.snapshot)?\.json")
_KEYS: Final = {"v", "id", "at", "job", "query", "batch", "add", "remove"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Changes of one commit."""

    id: str
    """Id of the commit, by which a writer recognizes its own entry."""
    at: datetime.datetime
    job: str
    query: str | None
    """Query that has written the entry, if any."""
    batch: int | None
    """Micro-batch of the query, if any."""
    add: tuple[ArchivedFile, ...]
    remove: tuple[str, ...]
    """Paths of removed files."""

    def to_json(self) -> bytes:
        """Encode the entry for storage."""
        return json.dumps(
            {
                "v": VERSION,
                "id": self.id,
                "at": self.at.isoformat(),
                "job": self.job,
                "query": self.query,
                "batch": self.batch,
                "add": [file.to_json() for file in self.add],
                "remove": list(self.remove),
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def from_json(path: str, content: bytes) -> Entry:
        """Decode an entry.

        Args:
            path: Path of the entry, for messages.
            content: Stored bytes.

        Raises:
            ManifestError: The bytes are not a valid entry.
        """
        value = document(path, content)
        try:
            if set(value) != _KEYS:
                raise ValueError(f"it has {', '.join(sorted(value))}")
            batch, query = value["batch"], value["query"]
            if not (batch is None or (type(batch) is int and batch >= 0)):
                raise ValueError(f"its batch is {batch!r}")
            if not (query is None or isinstance(query, str)) or (query is None) != (batch is None):
                raise ValueError(f"its query is {query!r}, its batch {batch!r}")
            return Entry(
                id=_text(value, "id"),
                at=time_of(_text(value, "at")),
                job=_text(value, "job"),
                query=query,
                batch=batch,
                add=tuple(ArchivedFile.from_json(file) for file in _list(value, "add")),
                remove=tuple(_path(path) for path in _list(value, "remove")),
            )
        except ValueError as error:
            raise ManifestError(path, f"is damaged: {error}") from error


def path_of(number: int, *, snapshot: bool = False) -> str:
    """Return the path of an entry or a snapshot."""
    return f"{DIRECTORY}/{number:020d}{'.snapshot' if snapshot else ''}.json"


def number_of(path: str) -> tuple[int, bool] | None:
    """Return the number of an entry and whether the path is a snapshot; None for other paths."""
    match = _NAME.fullmatch(path.removeprefix(f"{DIRECTORY}/"))
    return None if match is None else (int(match[1]), match[2] is not None)


def document(path: str, content: bytes) -> Mapping[str, Any]:
    """Parse a JSON object with a known version.

    Raises:
        ManifestError: The bytes are not such an object.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError(path, f"is damaged ({len(content)} bytes): {error}") from error
    if not isinstance(value, dict):
        raise ManifestError(path, "is damaged: it is not an object")
    if value.get("v") != VERSION:
        raise ManifestError(path, f"is of version {value.get('v')!r}, which this program does not know")
    return value


def time_of(text: str) -> datetime.datetime:
    """Parse a time with its offset to UTC.

    Raises:
        ValueError: The text is not such a time.
    """
    when = datetime.datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"{text!r} has no offset to UTC")
    return when


def _text(value: Mapping[str, Any], name: str) -> str:
    found = value[name]
    if not isinstance(found, str):
        raise ValueError(f"its {name} is {found!r}")
    return found


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value[name]
    if not isinstance(found, list):
        raise ValueError(f"its {name} is {found!r}")
    return found


def _path(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a path")
    return value
