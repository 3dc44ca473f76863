"""Fields that settings name and no record of a trial has: names that are misspelt, most often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from headrace_connectors.contract import InvalidRecord, Record, Transform
from headrace_connectors.pipeline_file.models import Routing
from headrace_connectors.pipeline_file.pipeline import ConfiguredPlugin
from headrace_connectors.routing.paths import MISSING, READ, parse_path, value_at
from headrace_connectors.transforms.payloads import decoded
from headrace_settings import Section

_NAMES_MAX: Final = 10


def fields_of(settings: Section) -> dict[str, str]:
    """Return the paths that settings expect in payloads, each with the name of its setting."""
    found: dict[str, str] = {}
    for name, hint in get_type_hints(type(settings), include_extras=True).items():
        for path in _paths(hint, getattr(settings, name, None)):
            found.setdefault(path, name)
    return found


def _paths(hint: Any, value: Any) -> Iterator[str]:
    """Yield the texts in a value that its type marks as paths to read."""
    if value is None:
        return
    if READ in getattr(hint, "__metadata__", ()):
        yield value
        return
    origin, kinds = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _paths(kinds[0], value)
    elif origin in {Union, UnionType}:
        for kind in kinds:
            yield from _paths(kind, value)
    elif isinstance(value, Mapping) and len(kinds) == len(("keys", "values")):
        for key, one in value.items():
            yield from _paths(kinds[0], key)
            yield from _paths(kinds[1], one)
    elif isinstance(value, tuple) and kinds:
        for one in value:
            yield from _paths(kinds[0], one)


def columns_of(routing: Routing | None) -> dict[str, str]:
    """Return the paths that `routing` expects in payloads, each with the name of its setting."""
    settings = ("stream_column", "topic_column", "partition_key_column")
    named = {} if routing is None else {name: getattr(routing, name) for name in settings}
    return {path: name for name, path in named.items() if path is not None}


class Seen(Transform):
    """Lets records pass, and notes which of some fields none of them has."""

    def __init__(self, place: str, fields: Mapping[str, str], *, decodes: bool) -> None:
        """Look for fields.

        Args:
            place: Table of the settings, for texts.
            fields: Name of the setting by path.
            decodes: True if payloads that are bytes count as the JSON in them.
        """
        self._place = place
        self._decodes = decodes
        self._missing = {path: (parse_path(path), setting) for path, setting in fields.items()}
        self._count = 0
        self._names: dict[str, None] = {}

    @classmethod
    def before_routing(cls, routing: Routing | None) -> Seen:
        """Return one for the columns of `routing`."""
        return cls("routing", columns_of(routing), decodes=False)

    @classmethod
    def before(cls, plugged: ConfiguredPlugin) -> Seen:
        """Return one for the fields of a transform, or of a sink."""
        return cls(plugged.name, fields_of(plugged.settings), decodes=True)

    def apply(self, record: Record) -> Record:
        """Return the record as it is."""
        payload = record.payload
        if self._decodes:
            try:
                payload = decoded(record)
            except InvalidRecord:
                # The transform says so itself.
                return record
        self._count += 1
        for path, (names, _) in list(self._missing.items()):
            if value_at(payload, names) is not MISSING:
                del self._missing[path]
        if isinstance(payload, Mapping):
            self._names |= dict.fromkeys(map(str, payload))
        return record

    def warnings(self) -> Iterator[str]:
        """Describe the fields that no record has; nothing if there were no records."""
        if not self._count:
            return
        names = list(self._names)
        more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
        there = f"they have {', '.join(names[:_NAMES_MAX])}{more}" if names else "they are no objects"
        of = "the one record" if self._count == 1 else f"all {self._count} records"
        for path, (_, setting) in self._missing.items():
            yield f"{self._place}.{setting}: the field {path!r} is missing in {of}; {there}"
