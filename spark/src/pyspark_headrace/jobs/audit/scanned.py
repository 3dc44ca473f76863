"""What a task says of the range that it has read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self


class Piece(NamedTuple):
    """A part of a range that is not cut by the bounds of a file of the archive."""

    start: int
    end: int
    rows: int
    digest: int
    first_timestamp: int
    """Microseconds since 1970."""


class Unreadable(NamedTuple):
    """Messages that no node gives out."""

    start: int
    end: int
    """Behind the last of them."""
    reason: str


@dataclass(kw_only=True)
class Scanned:
    """A range, and what is in it."""

    stream: str
    topic: str
    partition: int
    start: int
    end: int
    """Exclusive."""
    rows: int = 0
    first_offset: int = -1
    """Of the first message that was read."""
    first_timestamp: int = 0
    """Microseconds since 1970."""
    last_timestamp: int = 0
    digest: int = 0
    pieces: list[Piece] = field(default_factory=list)
    removed: int = 0
    """Messages at the beginning that retention has taken since the range was planned."""
    unreadable: list[Unreadable] = field(default_factory=list)
    backwards: list[tuple[int, int]] = field(default_factory=list)
    """Offsets whose time is before that of the message in front, and by how many microseconds: the first ones."""
    backwards_count: int = 0
    null_keys: int = 0
    first_null_key: int = -1
    large: list[tuple[int, int]] = field(default_factory=list)
    """Offsets of values that are too large, and their bytes: the first ones."""
    large_count: int = 0

    @property
    def unreadable_count(self) -> int:
        """Messages that could not be read."""
        return sum(one.end - one.start for one in self.unreadable)

    @property
    def place(self) -> dict[str, Any]:
        """For findings."""
        return {"stream": self.stream, "topic": self.topic, "partition": self.partition}

    def to_text(self) -> str:
        """As a row of Spark has it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Take it from such a row."""
        value = json.loads(text)
        value["pieces"] = [Piece(*piece) for piece in value["pieces"]]
        value["unreadable"] = [Unreadable(*one) for one in value["unreadable"]]
        value["backwards"] = [(offset, micros) for offset, micros in value["backwards"]]
        value["large"] = [(offset, size) for offset, size in value["large"]]
        return cls(**value)
