"""Description of a file that a task has written, which the driver commits."""

from __future__ import annotations

import datetime
import secrets
from dataclasses import dataclass
from typing import Final, NamedTuple

_DAY_MICROS: Final = 86_400_000_000

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


def escaped(name: str) -> str:
    """Escape a name as a path segment that Spark and pyarrow read back.

    Non-ASCII characters stay unescaped: Spark would decode each escaped byte as a character.
    """
    return "".join(c if c.isalnum() or c in "-_." or not c.isascii() else f"%{ord(c):02X}" for c in name)


def date_of(timestamp_micros: int) -> str:
    """Return the UTC date of a timestamp."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=timestamp_micros // _DAY_MICROS)).isoformat()
