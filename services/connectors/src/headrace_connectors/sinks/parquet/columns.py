"""Messages as tables with fixed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa

from headrace_connectors.contract import InvalidRecord, Received
from headrace_connectors.json_errors import NO_FORM_IN_JSON
from headrace_connectors.json_values import JsonEncoder
from headrace_connectors.routing.paths import MISSING, value_at

ColumnType = Literal["bool", "int64", "float64", "string", "date", "timestamp", "json"]
"""Type of a column; `json` is a text with any value."""

OFFSET: Final = "_offset"
_TYPES: Final[Mapping[ColumnType, pa.DataType]] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "json": pa.string(),
}
_OWN: Final = pa.schema(
    [
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field("_timestamp", _TYPES["timestamp"], nullable=False),
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
        fields = [pa.field(name, _TYPES[kind]) for name, kind in columns.items()] or [pa.field("payload", pa.string())]
        self.schema = pa.schema([*_OWN, *fields])

    def table(self, messages: Sequence[Received]) -> pa.Table:
        """Return messages as a table.

        Raises:
            InvalidRecord: A value does not fit its column; which one is not always known.
        """
        arrays = [
            pa.array([message.offset for message in messages], pa.int64()),
            pa.array([message.timestamp_micros for message in messages], _TYPES["timestamp"]),
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
        try:
            return pa.array(values).cast(_TYPES[kind])
        except (pa.ArrowException, UnicodeEncodeError, OverflowError, TypeError, ValueError) as error:
            raise InvalidRecord(f"{name} is no {kind}: {' '.join(str(error).split())}") from error

    def _text(self, payload: Any, index: int) -> str:
        try:
            return self._encoder.encode(payload).decode()
        except NO_FORM_IN_JSON as error:
            raise InvalidRecord(f"the payload has no form in JSON: {error}", index=index) from error
