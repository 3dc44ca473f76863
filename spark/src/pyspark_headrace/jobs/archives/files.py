"""A file of an archive, as the log describes it."""

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
"""Mode of files with messages as they were."""
DECODED: Final = "decoded"
"""Mode of files whose columns were made of the values."""


class PartitionKey(NamedTuple):
    """A partition, and which one of those that had its name over time."""

    stream: str
    topic: str
    partition: int
    incarnation: str
    """Of the topic: another one when it was made anew."""
    generation: str
    """Of the partition: another one when it was purged."""

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.stream}/{self.topic}, partition {self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """What the log says of a file."""

    path: str
    """Below the archive, with slashes."""
    stream: str
    topic: str
    partition: int
    start: int
    """Offset of its first message."""
    end: int
    """Behind the offset of its last message."""
    rows: int
    """`end - start`, unless messages were gone already when they were read."""
    bytes: int
    """Size of the file."""
    incarnation: str
    generation: str
    first_timestamp: int
    """Of its first message, in microseconds since 1970."""
    last_timestamp: int
    """Of its last message, in microseconds since 1970."""
    digest: int
    """Of its messages, see `pyspark_headrace.digest`."""
    date: str
    """Of all its messages, in UTC: ``2026-11-21``."""
    mode: str = RAW

    @property
    def key(self) -> PartitionKey:
        """Whose messages these are."""
        return PartitionKey(self.stream, self.topic, self.partition, self.incarnation, self.generation)

    def to_json(self) -> dict[str, Any]:
        """What entries of the log hold."""
        return asdict(self) | {"digest": f"{self.digest:016x}"}

    @staticmethod
    def from_json(value: Any) -> ArchivedFile:
        """Read what an entry holds.

        Raises:
            ValueError: It is no description of a file.
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
            raise ValueError(f"{self.path!r} is no path of a file")
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
    """Where a new file goes; never the same twice.

    Args:
        key: Whose messages.
        date: Of all of them.
        start: Its first offset.
        end: Where the task ends that writes it; how much of that it gets is not known when it is begun.
    """
    folder = f"stream={escaped(key.stream)}/topic={escaped(key.topic)}/date={date}"
    return f"{folder}/p{key.partition}-{start}-{end}-{secrets.token_hex(6)}.parquet"


def is_data_path(path: str) -> bool:
    """Whether a path is one that `new_path` makes, or that was being written when its writer died."""
    return _NAME.fullmatch(path) is not None


def escaped(name: str) -> str:
    """Write a name as a part of a path, so that Spark and pyarrow read it back.

    Other characters than those of ASCII stay as they are: Spark would take the escaped bytes of one for several.
    """
    return "".join(c if c.isalnum() or c in "-_." or not c.isascii() else f"%{ord(c):02X}" for c in name)


def date_of(timestamp_micros: int) -> str:
    """The day of a time, in UTC."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=timestamp_micros // _DAY_MICROS)).isoformat()


def _named(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing else"
