"""Rules for the durability of topics by name.

The binary protocol has no field for it, so the durability is decided here when a topic is created.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Self

from headrace_proto.catalog.v1 import DURABILITY_UNSPECIFIED, Durability
from headrace_settings.units.quantity import Quantity

_LEVELS = {
    name.removeprefix("DURABILITY_").lower(): level
    for name, level in Durability.items()
    if level != DURABILITY_UNSPECIFIED
}
_NAMES = {level: name for name, level in _LEVELS.items()}


@dataclass(frozen=True, slots=True)
class TopicDurability(Quantity):
    """One rule: topics whose stream and topic name match get this durability."""

    ALLOWED: ClassVar[str] = f"stream/topic=level: names with shell wildcards, and one of {', '.join(_LEVELS)}"
    EXAMPLES: ClassVar[tuple[str, ...]] = ("orders/*=fsync", "logs/debug=memory")

    stream: str
    topic: str
    level: Durability.ValueType

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``orders/*=fsync``. The level follows the last ``=``, because names may contain one."""
        pattern, separator, level = text.rpartition("=")
        if not separator:
            raise ValueError(f"{text!r} has no =level at its end")
        stream, _, topic = (part.strip() for part in pattern.partition("/"))
        if not stream or not topic:
            raise ValueError(f"{pattern.strip()!r} in {text!r} is not stream/topic")
        if "/" in topic:
            # With several slashes the boundary between stream and topic name would be ambiguous.
            raise ValueError(f"{pattern.strip()!r} in {text!r} has more than one /; a ? stands for one within a name")
        if level.strip() not in _LEVELS:
            raise ValueError(f"{level.strip()!r} in {text!r} is not a durability level")
        return cls(stream, topic, _LEVELS[level.strip()])

    def matches(self, stream_name: str, topic_name: str) -> bool:
        """Return whether this rule applies to a topic. A wildcard does not match across the slash."""
        return fnmatchcase(stream_name, self.stream) and fnmatchcase(topic_name, self.topic)

    def __str__(self) -> str:
        return f"{self.stream}/{self.topic}={_NAMES[self.level]}"


def durability_of(rules: Iterable[TopicDurability], stream_name: str, topic_name: str) -> Durability.ValueType:
    """Return the durability of the first matching rule; unspecified (the server's) if none matches."""
    levels = (rule.level for rule in rules if rule.matches(stream_name, topic_name))
    return next(levels, DURABILITY_UNSPECIFIED)
