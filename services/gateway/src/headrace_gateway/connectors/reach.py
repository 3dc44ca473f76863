"""Topics that a connector reads and writes, by its definition.

Connectors use a login of their own, which may do more than the user who changes one: the user needs the rights for what
the connector is to do. What the definition leaves open, such as a name that comes from a variable or from each record,
needs the rights on everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Name = tuple[str, str]
"""Stream and topic."""
_PLAIN_TRANSFORMS: Final = frozenset(
    {"add_fields", "delete_fields", "filter_fields", "mask_fields", "python", "rename_fields", "split"}
)
"""Transforms that choose no topic; others may."""


@dataclass(slots=True)
class Reach:
    """Topics of a connector."""

    reads: list[Name] = field(default_factory=list)
    reads_any: bool = False
    writes: list[Name] = field(default_factory=list)
    writes_any: bool = False


def reach_of(kind: str, definition: Mapping[str, Any]) -> Reach:
    """Return the topics of a definition.

    Args:
        kind: ``source`` or ``sink``.
        definition: Table as in a pipeline file; it need not be valid.
    """
    reach = Reach()
    if kind == "sink":
        for stream, topic in _topics(definition):
            if _is_plain(stream) and _is_plain(topic):
                reach.reads.append((stream, topic))
            else:
                reach.reads_any = True
            if (dead := definition.get("dead_letter_topic")) is not None:
                if _is_plain(stream) and _is_plain(dead):
                    reach.writes.append((stream, dead))
                else:
                    reach.writes_any = True
        return reach
    name = definition.get("stream"), definition.get("topic")
    if _is_plain(name[0]) and _is_plain(name[1]):
        reach.writes.append((str(name[0]), str(name[1])))
    else:
        reach.writes_any = True
    if definition.get("routing") is not None or any(not _is_plain_transform(one) for one in _transforms(definition)):
        reach.writes_any = True
    return reach


def _topics(definition: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    if "stream" in definition or "topic" in definition:
        yield definition.get("stream"), definition.get("topic")
    topics = definition.get("topics", ())
    if not isinstance(topics, list | tuple):
        yield None, None
        return
    for one in topics:
        yield (one.get("stream"), one.get("topic")) if isinstance(one, Mapping) else (None, None)


def _transforms(definition: Mapping[str, Any]) -> Iterator[Any]:
    transforms = definition.get("transforms", {})
    if not isinstance(transforms, Mapping):
        yield None
        return
    for name, table in transforms.items():
        yield table.get("plugin", name) if isinstance(table, Mapping) else name


def _is_plain_transform(name: Any) -> bool:
    return isinstance(name, str) and name in _PLAIN_TRANSFORMS


def _is_plain(name: Any) -> bool:
    return isinstance(name, str) and name != "" and "${" not in name
