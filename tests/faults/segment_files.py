"""Partition files, read and damaged from outside while no server has them open."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

HEADER_BYTES = 64
INDEX_ENTRY_BYTES = 32


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """Position of a message in its segment's log."""

    offset: int
    position: int
    size: int

    @property
    def end(self) -> int:
        """Return the position after the last byte."""
        return self.position + self.size


def logs(directory: Path) -> list[Path]:
    """Return the logs of a partition, oldest first."""
    return sorted(directory.glob("*.log"))


def messages(log: Path) -> list[StoredMessage]:
    """Return all messages of an undamaged log."""
    data = log.read_bytes()
    found, position = [], 0
    while position < len(data):
        (offset,) = struct.unpack_from("<Q", data, position + 24)
        lengths = struct.unpack_from("<II", data, position + 48)
        size = HEADER_BYTES + sum(lengths)
        found.append(StoredMessage(offset, position, size))
        position += size
    assert position == len(data), f"{log} ends inside a message"
    return found


def flip(file: Path, position: int, *, mask: int = 0x40) -> None:
    """Change one byte; a negative position counts from the end."""
    with file.open("r+b") as raw:
        raw.seek(position, 2 if position < 0 else 0)
        at = raw.tell()
        byte = raw.read(1)[0]
        raw.seek(at)
        raw.write(bytes([byte ^ mask]))


def cut(file: Path, length: int) -> None:
    """Shorten a file."""
    with file.open("r+b") as raw:
        raw.truncate(length)


def append(file: Path, data: bytes) -> None:
    """Append bytes to a file."""
    with file.open("ab") as raw:
        raw.write(data)
