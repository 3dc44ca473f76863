"""Faults on disk: in segments of a stopped server, and in files of an archive."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import xxhash
from tests.faults.segment_files import HEADER_BYTES, flip, logs, messages

ID = slice(8, 24)
TIMESTAMP = slice(32, 40)
Edit = Callable[[list[bytearray]], list[bytearray]]
INSIDE = 10
"""Position of the damaged message within a segment."""


def sealed(directory: Path) -> Path:
    """Return the log file of a sealed segment in the middle."""
    return logs(directory)[1]


def offset_of(log: Path, number: int) -> int:
    return messages(log)[number].offset


def rewrite(log: Path, edit: Edit) -> None:
    """Rewrite complete messages, with valid checksums as if a server had stored them."""
    data = log.read_bytes()
    stored = edit([bytearray(data[one.position : one.end]) for one in messages(log)])
    for message in stored:
        message[:8] = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(message[8:])))
    log.write_bytes(b"".join(map(bytes, stored)))
    # The server rebuilds a missing index; this one would point between messages.
    log.with_suffix(".index").unlink(missing_ok=True)


def hole(stored: list[bytearray]) -> list[bytearray]:
    return stored[:INSIDE] + stored[INSIDE + 1 :]


def overlap(stored: list[bytearray]) -> list[bytearray]:
    return [*stored[:INSIDE], bytearray(stored[INSIDE - 1]), *stored[INSIDE:]]


def same_id(stored: list[bytearray]) -> list[bytearray]:
    stored[INSIDE][ID] = stored[3][ID]
    return stored


def time_back(stored: list[bytearray]) -> list[bytearray]:
    (at,) = struct.unpack("<Q", stored[INSIDE][TIMESTAMP])
    stored[INSIDE][TIMESTAMP] = struct.pack("<Q", at - 3_600_000_000)
    return stored


def flipped(log: Path) -> None:
    """Flip a byte of a payload."""
    flip(log, messages(log)[INSIDE].position + HEADER_BYTES + 100)


def edit_added(archive: Path, path: str, edit: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change what the log of a Delta Lake table has of a file, or remove it there."""
    for log in (archive / "_delta_log").glob("*.json"):
        lines = []
        for line in log.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "add" in action and unquote(action["add"]["path"]) == path:
                changed = edit(action["add"])
                if changed is None:
                    continue
                action["add"] = changed
            lines.append(json.dumps(action))
        log.write_text("\n".join(lines) + "\n", encoding="utf-8")
