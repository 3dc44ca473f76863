"""Messages as Arrow record batches, without copying them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headrace.sdk.errors import InvalidArgument
from headrace_core import Batch, ColumnArray

_HEADER: Final = pa.struct([pa.field("key", pa.utf8(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
COLUMNS: Final = pa.schema(
    [
        pa.field("stream", pa.utf8(), nullable=False),
        pa.field("topic", pa.utf8(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("origin_timestamp", pa.timestamp("us", "UTC")),
        pa.field("id", pa.binary(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False))),
    ]
)
"""All columns of a message. `timestamp` is the time of the append; `value` is the payload."""
DEFAULT_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value")


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns.

    Raises:
        InvalidArgument: There is no such column, or one is named twice.
    """
    unknown = [name for name in columns if name not in COLUMNS.names]
    if unknown:
        raise InvalidArgument(f"columns: {unknown[0]!r} is none of {', '.join(COLUMNS.names)}")
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"columns: one is named twice: {', '.join(columns)}")
    return pa.schema([COLUMNS.field(name) for name in columns])


def record_batch(
    batch: Batch, columns: Sequence[str] = DEFAULT_COLUMNS, *, stream: str = "", topic: str = "", verify: bool = True
) -> pa.RecordBatch:
    """Return the messages of a batch as an Arrow record batch.

    Args:
        batch: What a consumer has read.
        columns: Names of `COLUMNS`, in the order of the result.
        stream: Value of the column `stream`.
        topic: Value of the column `topic`.
        verify: Whether the checksum of each message is compared.

    Raises:
        InvalidArgument: A column is unknown or named twice.
        headrace_core.RecordError: A message is damaged.
    """
    schema = schema_of(columns)
    pieces = [
        pa.RecordBatch.from_arrays(
            [_array(field.type, column) for field, column in zip(schema, found.columns, strict=True)], schema=schema
        )
        if schema.names
        else pa.RecordBatch.from_struct_array(pa.array([{}] * found.rows, pa.struct([])))
        for found in batch.columns(list(columns), stream=stream, topic=topic, verify=verify)
    ]
    if len(pieces) == 1:
        return pieces[0]
    return pa.Table.from_batches(pieces, schema=schema).combine_chunks().to_batches()[0]


def _array(kind: pa.DataType, column: ColumnArray) -> pa.Array:
    buffers = [None if part is None else pa.py_buffer(part) for part in column.buffers]
    children = [_array(kind.field(index).type, child) for index, child in enumerate(column.children)]
    return pa.Array.from_buffers(kind, column.length, buffers, column.null_count, children=children or None)
