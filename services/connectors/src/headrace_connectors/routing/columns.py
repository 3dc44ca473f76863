"""Destinations from columns, and from the table that a record comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace_connectors.contract import Destination, InvalidRecord, Record
from headrace_connectors.pipeline_file.models import Routing
from headrace_connectors.routing.paths import MISSING, parse_path, value_at, without

_U32_MAX: Final = 2**32 - 1
NO_PARTITION: Final = -1
"""Partition id of a record whose id is not a number; no partition has it, so that it is refused as out of range."""

_Place = tuple[bytes | None, int | None]


class ColumnRouter:
    """Sets the destination of each record, according to `routing`."""

    def __init__(self, settings: Routing) -> None:
        self._stream = _path(settings.stream_column)
        self._topic = _path(settings.topic_column)
        self._key = _path(settings.partition_key_column)
        self._encode = _ENCODINGS[settings.partition_key_encoding]
        self._tables = settings.by_table
        self._defaults = (settings.default_stream, settings.default_topic)
        columns = (self._stream, self._topic, self._key)
        self._stripped = [path for path in columns if path is not None] if settings.strip_routing_columns else []

    def route(self, record: Record) -> None:
        """Set the destination of a record; None if neither a column nor a default names one.

        Raises:
            InvalidRecord: The value of the key has the wrong type.
        """
        payload = record.payload
        key, partition = (None, None)
        if self._key is not None and (value := value_at(payload, self._key)) not in (None, MISSING):
            try:
                key, partition = self._encode(value)
            except ValueError as error:
                raise InvalidRecord(f"partition key: {error}") from None
        stream, topic = self._names(record)
        record.destination = (
            Destination(stream, topic, key, partition) if stream is not None and topic is not None else None
        )
        for path in self._stripped:
            payload = without(payload, path)
        record.payload = payload

    def _names(self, record: Record) -> tuple[str | None, str | None]:
        stream, topic = self._defaults
        if record.table is not None and (entry := self._tables.get(record.table)) is not None:
            return entry.stream, entry.topic
        if self._stream is not None:
            stream = _name(value_at(record.payload, self._stream), stream)
        if self._topic is not None:
            topic = _name(value_at(record.payload, self._topic), topic)
        return stream, topic


def _path(column: str | None) -> tuple[str, ...] | None:
    return None if column is None else parse_path(column)


def _name(value: Any, default: str | None) -> str | None:
    return default if value is None or value is MISSING or value == "" else str(value)


def _bytes(value: Any) -> _Place:
    return (value if isinstance(value, bytes) else str(value).encode(), None)


def _key_u32(value: Any) -> _Place:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _U32_MAX:
        raise ValueError(f"{value!r} is not a whole number from 0 to {_U32_MAX}, as key_u32 needs")
    return (value.to_bytes(4, "little"), None)


def _partition_id(value: Any) -> _Place:
    is_id = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return (None, value if is_id else NO_PARTITION)


_ENCODINGS: Final[dict[str, Callable[[Any], _Place]]] = {
    "bytes": _bytes,
    "key_u32": _key_u32,
    "partition_id": _partition_id,
}
