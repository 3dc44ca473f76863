"""Description of a file that a task has written, which the driver commits."""

from __future__ import annotations

import datetime
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

_DAY_MICROS: Final = 86_400_000_000
_NAME: Final = re.compile(r"stream=[^/]+/topic=[^/]+/date=[^/]+/p\d+-\d+-\d+-[0-9a-f]+\.parquet(#\d+)?")

RAW: Final = "raw"
"""Mode of files with raw messages."""
DECODED: Final = "decoded"
"""Mode of files with columns decoded from the values."""


class PartitionKey(NamedTuple):
    """A partition with its incarnation and generation."""

    stream: str
    topic: str
    partition: int
    incarnation: str
    """Incarnation of the topic: changes when the topic is recreated."""
    generation: str
    """Log generation of the partition: changes when the partition is purged."""

    @property
    def title(self) -> str:
        """Name of the partition in messages."""
        return f"{self.stream}/{self.topic}, partition {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """Description of a file."""

    path: str
    """Path relative to the archive, with slashes."""
    stream: str
    topic: str
    partition: int
    start: int
    """Offset of its first message."""
    end: int
    """Offset after its last message."""
    rows: int
    """Number of rows: `end - start`, unless messages were missing when they were read."""
    bytes: int
    """Size of the file."""
    incarnation: str
    generation: str
    first_timestamp: int
    """Timestamp of its first message, in microseconds since 1970."""
    last_timestamp: int
    """Timestamp of its last message, in microseconds since 1970."""
    digest: int
    """Digest of its messages, see `pyspark_headrace.columns.digest`."""
    date: str
    """Date of all its messages, in UTC: ``2026-11-21``."""
    mode: str = RAW

    @property
    def key(self) -> PartitionKey:
        """Partition of the messages."""
        return PartitionKey(self.stream, self.topic, self.partition, self.incarnation, self.generation)

    def to_json(self) -> dict[str, Any]:
        """Encode the description for the driver."""
        return asdict(self) | {"digest": f"{self.digest:016x}"}

    @staticmethod
    def from_json(value: Any) -> ArchivedFile:
        """Decode the description.

        Raises:
            ValueError: The value is not a description of a file.
        """
        if not isinstance(value, Mapping):
            raise ValueError("a file is not described by an object")
        unknown = set(value) - _FIELDS.keys()
        missing = _FIELDS.keys() - set(value)
        if unknown or missing:
            raise ValueError(f"a file is described without {_named(missing)}, and with {_named(unknown)}")
        for name, kind in _FIELDS.items():
            if type(value[name]) is not kind:
                raise ValueError(f"{name} of a file is {value[name]!r}")
        given = dict(value)
        if not re.fullmatch("[0-9a-f]{16}", given["digest"]):
            raise ValueError(f"digest of a file is {given['digest']!r}")
        given["digest"] = int(given["digest"], 16)
        file = ArchivedFile(**given)
        file._check()
        return file

    def _check(self) -> None:
        if not is_data_path(self.path) or ".." in self.path.split("/"):
            raise ValueError(f"{self.path!r} is not a path of a file")
        if not 0 <= self.start < self.end or not 0 < self.rows <= self.end - self.start:
            raise ValueError(f"{self.path} has {self.rows} rows from {self.start} to {self.end}")
        if self.mode not in {RAW, DECODED}:
            raise ValueError(f"{self.path} has the mode {self.mode!r}")


_FIELDS: Final[dict[str, type]] = {
    "path": str,
    "stream": str,
    "topic": str,
    "partition": int,
    "start": int,
    "end": int,
    "rows": int,
    "bytes": int,
    "incarnation": str,
    "generation": str,
    "first_timestamp": int,
    "last_timestamp": int,
    "digest": str,
    "date": str,
    "mode": str,
}


def new_path(key: PartitionKey, date: str, start: int, end: int) -> str:
    """Return a unique path for a new file.

    Args:
        key: Partition of the messages.
        date: Date of all messages.
        start: First offset.
        end: End of the writing task's range; how far the file reaches is not known in advance.
    """
    directory = f"stream={escaped(key.stream)}/topic={escaped(key.topic)}/date={date}"
    return f"{directory}/p{key.partition}-{start}-{end}-{secrets.token_hex(6)}.parquet"


def is_data_path(path: str) -> bool:
    """Return whether a path has the form of `new_path`, or of an unfinished file of a dead writer."""
    return _NAME.fullmatch(path) is not None


def escaped(name: str) -> str:
    """Escape a name as a path segment that Spark and pyarrow read back.

    Non-ASCII characters stay unescaped: Spark would decode each escaped byte as a character.
    """
    return "".join(c if c.isalnum() or c in "-_." or not c.isascii() else f"%{ord(c):02X}" for c in name)


def date_of(timestamp_micros: int) -> str:
    """Return the UTC date of a timestamp."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=timestamp_micros // _DAY_MICROS)).isoformat()


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing else"
