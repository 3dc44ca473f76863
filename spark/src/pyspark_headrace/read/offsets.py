"""Offsets of a stream as Spark writes them to its checkpoint.

Spark compares them as text, so the encoding is canonical:
``{"v":1,"t":{"<stream>/<topic>":{"i":"<incarnation>","p":{"0":123,"1":456},"g":{"0":"7.0","1":"8.0"}}}}``: `i` is the
incarnation of the topic, `p` the next offset of each partition, `g` the log generation of each partition: its
incarnation and purge epoch. `e`, if servers report it, is the number of the opening of each log in which the offset is
known, so that a stream notices a log that was cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.errors import OffsetError
from pyspark_headrace.options.values import OFFSET_MAX

VERSION: Final = 1

_NUMBER: Final = re.compile(r"0|[1-9]\d{0,9}")
_GENERATION: Final = re.compile(r"\d{1,20}\.\d{1,20}")


@dataclass(frozen=True)
class Offsets:
    """Next offset of each partition."""

    stream: str
    next: Mapping[Key, int]
    incarnations: Mapping[str, str] = field(default_factory=dict)
    """Incarnations of topics by topic name."""
    generations: Mapping[Key, str] = field(default_factory=dict)
    epochs: Mapping[Key, int] = field(default_factory=dict)
    """Numbers of the openings of logs, as far as they are known."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value for Spark, in canonical order."""
        topics: dict[str, Any] = {}
        for name in sorted(self.incarnations):
            partitions = sorted(number for topic, number in self.next if topic == name)
            topics[f"{self.stream}/{name}"] = {
                "i": self.incarnations[name],
                "p": {str(number): self.next[name, number] for number in partitions},
                "g": {str(number): self.generations[name, number] for number in partitions},
            }
            epochs = {str(number): self.epochs[name, number] for number in partitions if (name, number) in self.epochs}
            if epochs:
                topics[f"{self.stream}/{name}"]["e"] = epochs
        return {"v": VERSION, "t": topics}

    def to_text(self) -> str:
        """Return the canonical JSON text."""
        return json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=False)

    def at(self, key: Key) -> int:
        """Return the next offset of a partition; 0 for partitions created later."""
        return self.next.get(key, 0)

    @classmethod
    def of(cls, stream: str, described: Description, positions: Mapping[Key, int]) -> Offsets:
        """Combine positions with the current incarnations and generations."""
        return cls(
            stream,
            dict(positions),
            {name: str(topic.incarnation) for name, topic in described.topics.items()},
            {key: described.partitions[key].generation for key in positions},
            {key: epoch for key in positions if (epoch := described.partitions[key].epoch)},
        )

    @classmethod
    def from_json(cls, stream: str, found: object) -> Offsets:
        """Parse offsets from a checkpoint or a pinned value.

        Raises:
            OffsetError: The value is malformed or belongs to another stream.
        """
        if not isinstance(found, dict) or found.get("v") != VERSION or not isinstance(found.get("t"), dict):
            raise OffsetError(f"these are no offsets of version {VERSION}: {str(found)[:200]}")
        positions: dict[Key, int] = {}
        incarnations: dict[str, str] = {}
        generations: dict[Key, str] = {}
        epochs: dict[Key, int] = {}
        for title, topic in found["t"].items():
            name = str(title).removeprefix(f"{stream}/")
            if name == title:
                raise OffsetError(f"the checkpoint has offsets of {title}, but the option stream is {stream}")
            incarnations[name] = _incarnation(title, topic)
            for number, offset in topic["p"].items():
                generation = topic["g"].get(number)
                if (
                    not _NUMBER.fullmatch(number)
                    or not isinstance(offset, int)
                    or isinstance(offset, bool)
                    or not 0 <= offset <= OFFSET_MAX
                    or not isinstance(generation, str)
                    or not _GENERATION.fullmatch(generation)
                ):
                    raise OffsetError(
                        f"the offset of {title}, partition {number}, makes no sense: {offset}, {generation}"
                    )
                positions[name, int(number)] = offset
                generations[name, int(number)] = generation
            epochs.update({(name, int(number)): epoch for number, epoch in _epochs(title, topic).items()})
        return cls(stream, positions, incarnations, generations, epochs)

    @classmethod
    def from_text(cls, stream: str, text: str) -> Offsets:
        """Parse offsets from JSON text.

        Raises:
            OffsetError: See `from_json`.
        """
        try:
            return cls.from_json(stream, json.loads(text))
        except ValueError as error:
            raise OffsetError(f"these are no offsets: {text[:200]}") from error


def _incarnation(title: str, topic: object) -> str:
    if isinstance(topic, dict) and isinstance(topic.get("p"), dict) and isinstance(topic.get("g"), dict):
        incarnation = topic.get("i")
        if isinstance(incarnation, str) and incarnation.isdecimal() and topic["p"].keys() == topic["g"].keys():
            return incarnation
    raise OffsetError(f"the offsets of {title} make no sense: {str(topic)[:200]}")


def _epochs(title: str, topic: Mapping[str, Any]) -> dict[str, int]:
    epochs = topic.get("e", {})
    if isinstance(epochs, dict) and epochs.keys() <= topic["p"].keys():
        are_numbers = all(type(epoch) is int and 0 < epoch < 2**64 for epoch in epochs.values())
        if are_numbers:
            return epochs
    raise OffsetError(f"the epochs of {title} make no sense: {str(epochs)[:200]}")
