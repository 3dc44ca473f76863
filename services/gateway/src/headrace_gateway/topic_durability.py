"""Rules that give topics a durability of their own, by their names.

The classic protocol has no field for it, so what a topic gets is decided here, when it is created.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Self

from headrace_proto.catalog.v1 import (
    DURABILITY_FSYNC,
    DURABILITY_MEMORY,
    DURABILITY_OS,
    DURABILITY_UNSPECIFIED,
    Durability,
)
from headrace_settings.quantity import Quantity

_LEVELS = {"memory": DURABILITY_MEMORY, "os": DURABILITY_OS, "fsync": DURABILITY_FSYNC}
_NAMES = {level: name for name, level in _LEVELS.items()}


@dataclass(frozen=True, slots=True)
class TopicDurability(Quantity):
    """One rule: topics whose stream and name match get this level."""

    ALLOWED: ClassVar[str] = "stream/topic=level: names with shell wildcards, and memory, os or fsync"
    EXAMPLES: ClassVar[tuple[str, ...]] = ("orders/*=fsync", "logs/debug=memory")

    stream: str
    topic: str
    level: Durability.ValueType

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``orders/*=fsync``. What follows the last ``=`` is the level: names may hold one, too."""
        pattern, separator, level = text.rpartition("=")
        if not separator:
            raise ValueError(f"{text!r} has no =level at its end")
        stream, _, topic = (part.strip() for part in pattern.partition("/"))
        if not stream or not topic:
            raise ValueError(f"{pattern.strip()!r} in {text!r} is not stream/topic")
        if "/" in topic:
            # Otherwise it would depend on the reader which of them parts the two names.
            raise ValueError(f"{pattern.strip()!r} in {text!r} has more than one /; a ? stands for one within a name")
        if level.strip() not in _LEVELS:
            raise ValueError(f"{level.strip()!r} in {text!r} is not a level of durability")
        return cls(stream, topic, _LEVELS[level.strip()])

    def matches(self, stream_name: str, topic_name: str) -> bool:
        """Say whether this rule is about a topic. A wildcard does not reach from one name into the other."""
        return fnmatchcase(stream_name, self.stream) and fnmatchcase(topic_name, self.topic)

    def __str__(self) -> str:
        return f"{self.stream}/{self.topic}={_NAMES[self.level]}"


def durability_of(rules: Iterable[TopicDurability], stream_name: str, topic_name: str) -> Durability.ValueType:
    """Return what the first matching rule gives a topic; unspecified, the server's, when none matches."""
    levels = (rule.level for rule in rules if rule.matches(stream_name, topic_name))
    return next(levels, DURABILITY_UNSPECIFIED)
