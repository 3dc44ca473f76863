"""Messages as tables with fixed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from headrace_connectors.contract import InvalidRecord, Received
from headrace_connectors.json_errors import NO_FORM_IN_JSON
from headrace_connectors.json_values import JsonEncoder
from headrace_connectors.routing.paths import MISSING, value_at
from headrace_connectors.sinks.parquet.values import CONVERTERS, READY, TIMESTAMP, TYPES, ColumnType

OFFSET: Final = "_offset"
_NO_VALUES: Final = (pa.ArrowException, UnicodeEncodeError, OverflowError)
_SHOWN: Final = 50
"""Characters of a value that a refusal shows."""
_OWN: Final = pa.schema(
    [
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field("_timestamp", TIMESTAMP, nullable=False),
        pa.field("_key", pa.binary()),
    ]
)


class TableShape:
    """Columns of the files: those of every message, and the payload as JSON or some of its fields.

    Args:
        columns: Type by path in the payload; empty: one column `payload` with JSON.
    """

    def __init__(self, columns: Mapping[str, ColumnType]) -> None:
        self._columns = {name: (tuple(name.split(".")), kind) for name, kind in columns.items()}
        self._encoder = JsonEncoder()
        fields = [pa.field(name, TYPES[kind]) for name, kind in columns.items()] or [pa.field("payload", pa.string())]
        self.schema = pa.schema([*_OWN, *fields])

    def table(self, messages: Sequence[Received]) -> pa.Table:
        """Return messages as a table.

        Raises:
            InvalidRecord: A value does not fit its column; which one is not always known.
        """
        arrays = [
            pa.array([message.offset for message in messages], pa.int64()),
            pa.array([message.timestamp_micros for message in messages], TIMESTAMP),
            pa.array([message.key for message in messages], pa.binary()),
        ]
        payloads = [message.record.payload for message in messages]
        if not self._columns:
            arrays.append(pa.array([self._text(payload, index) for index, payload in enumerate(payloads)], pa.string()))
        for name, (path, kind) in self._columns.items():
            values = [None if (value := value_at(payload, path)) is MISSING else value for payload in payloads]
            arrays.append(self._array(name, kind, values))
        return pa.table(arrays, schema=self.schema)

    def _array(self, name: str, kind: ColumnType, values: list[Any]) -> Any:
        if kind == "json":
            values = [None if value is None else self._text(value, index) for index, value in enumerate(values)]
        elif kind == "timestamp" and (found := _times(values)) is not None:
            return found
        elif not READY.get(kind, frozenset()) >= set(map(type, values)):
            values = self._converted(name, kind, values)
        try:
            return pa.array(values, TYPES[kind])
        except _NO_VALUES as error:
            index = next((index for index, value in enumerate(values) if not _is_held(kind, value)), None)
            shown = "a value" if index is None else f"{name} = {str(values[index])[:_SHOWN]!a}"
            raise InvalidRecord(f"{shown} is no {kind}: {' '.join(str(error).split())}", index=index) from error

    def _converted(self, name: str, kind: ColumnType, values: list[Any]) -> list[Any]:
        converter, found = CONVERTERS[kind], []
        for index, value in enumerate(values):
            try:
                found.append(None if value is None else converter(value))
            except (TypeError, ValueError, ArithmeticError, KeyError) as error:
                raise InvalidRecord(f"{name} = {str(value)[:_SHOWN]!r} is no {kind}: {error}", index=index) from error
        return found

    def _text(self, payload: Any, index: int) -> str:
        try:
            return self._encoder.encode(payload).decode()
        except NO_FORM_IN_JSON as error:
            raise InvalidRecord(f"the payload has no form in JSON: {error}", index=index) from error


def _times(values: list[Any]) -> Any:
    """Return texts with zones, and without nanoseconds, as times, in a tenth of the time; None: there are others."""
    if not READY["string"] >= set(map(type, values)):
        return None
    try:
        return pa.array(values, pa.string()).cast(TIMESTAMP)
    except _NO_VALUES:
        return None


def _is_held(kind: ColumnType, value: Any) -> bool:
    try:
        pa.array([value], TYPES[kind])
    except _NO_VALUES:
        return False
    return True
