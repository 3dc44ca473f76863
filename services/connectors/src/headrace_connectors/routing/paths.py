"""Paths to values in nested objects: names with dots between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

MISSING = object()
"""Value of a path of which a part does not exist."""


def parse_path(text: str) -> tuple[str, ...]:
    """Return the names of a path such as ``event.type``. Arrays, and names with dots in them, cannot be reached.

    Raises:
        ValueError: It is not a path.

    Examples:
        >>> parse_path("event.type")
        ('event', 'type')
    """
    names = tuple(text.split("."))
    if not all(names):
        raise ValueError(f'{text!r} is not a path: write names with single dots between them, such as "event.type"')
    return names


def _checked(text: str) -> str:
    parse_path(text)
    return text


FieldPath = Annotated[str, AfterValidator(_checked)]
"""Setting with a path."""

READ = object()
"""Mark of a setting whose path is read, so that records are expected to have it."""
ReadPath = Annotated[str, AfterValidator(_checked), READ]
"""Setting with a path that is read."""


def value_at(payload: Any, path: tuple[str, ...]) -> Any:
    """Return the value that a path leads to, or `MISSING`.

    Examples:
        >>> value_at({"event": {"type": "paid"}}, ("event", "type"))
        'paid'
    """
    for name in path:
        if not isinstance(payload, Mapping) or name not in payload:
            return MISSING
        payload = payload[name]
    return payload


def without(payload: Any, path: tuple[str, ...]) -> Any:
    """Return a payload without the value at a path. The objects on the path are copied, and nothing else."""
    if not isinstance(payload, Mapping) or path[0] not in payload:
        return payload
    copy = dict(payload)
    if len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = without(copy[path[0]], path[1:])
    return copy


def with_value(payload: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return a payload with a value at a path. The objects on the path are copied, or made if they are missing.

    Raises:
        ValueError: Something on the path is no object.

    Examples:
        >>> with_value({"event": {"type": "paid"}}, ("event", "id"), 7)
        {'event': {'type': 'paid', 'id': 7}}
    """
    if not isinstance(payload, Mapping):
        raise ValueError(f"it is a {type(payload).__name__}, and {'.'.join(path)} a field of objects")
    copy = dict(payload)
    copy[path[0]] = value if len(path) == 1 else with_value(copy.get(path[0], {}), path[1:], value)
    return copy
