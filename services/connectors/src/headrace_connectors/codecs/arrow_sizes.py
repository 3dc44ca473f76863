"""Sizes of what is in a stream of Arrow's IPC format, before memory is allocated for it.

A few bytes of a stream may stand for any number of rows: buffers may be compressed, columns of nulls have no buffers,
and values of a dictionary, a run or a view are there once and mean many. Layouts are those of Message.fbs of Arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_ROW_BYTES: Final = 256
_VALUE_BYTES: Final = 64
_SCHEMA_FACTOR: Final = 32
_MESSAGE_BYTES: Final = 4096
# Fields of the tables Message, RecordBatch and DictionaryBatch.
_HEADER: Final = 2
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_DICTIONARY_DATA: Final = 1


def announced_sizes(encoded: bytes) -> Iterator[int]:
    """Return the size in memory, as Python objects, of each message of a stream, from its metadata alone.

    Raises:
        pa.ArrowException: The bytes are no stream.
        ValueError: The metadata is not valid.
    """
    reader = pa.ipc.MessageReader.open_stream(encoded)
    while (message := _next(reader)) is not None:
        metadata = memoryview(message.metadata)
        if message.type not in ("record batch", "dictionary"):
            yield _MESSAGE_BYTES + _SCHEMA_FACTOR * len(metadata)
            continue
        try:
            header = _target(metadata, _field(metadata, _target(metadata, 0), _HEADER))
            if message.type == "dictionary":
                header = _target(metadata, _field(metadata, header, _DICTIONARY_DATA))
            yield _MESSAGE_BYTES + _batch_size(metadata, header, memoryview(message.body or b""))
        except struct.error as error:
            raise ValueError(f"the metadata of a message ends early: {error}") from error


def _next(reader: Any) -> Any:
    try:
        return reader.read_next_message()
    except StopIteration:
        return None


def _batch_size(metadata: memoryview, batch: int, body: memoryview) -> int:
    place = _field(metadata, batch, _LENGTH)
    [rows] = struct.unpack_from("<q", metadata, place) if place else (0,)
    lengths = [length for length, _ in _pairs(metadata, _field(metadata, batch, _NODES))]
    if rows < 0 or min(lengths, default=0) < 0:
        raise ValueError("a number of rows is negative")
    size: int = _ROW_BYTES * rows + _VALUE_BYTES * sum(lengths)
    is_compressed = bool(_field(metadata, batch, _COMPRESSION))
    for offset, length in _pairs(metadata, _field(metadata, batch, _BUFFERS)):
        if is_compressed and length:
            # -1: this one is not.
            [inflated] = struct.unpack_from("<q", body, offset)
            size += length if inflated < 0 else inflated
        else:
            size += length
    return size


def _pairs(metadata: memoryview, reference: int) -> list[tuple[int, int]]:
    if not reference:
        return []
    place = _target(metadata, reference)
    [count] = struct.unpack_from("<I", metadata, place)
    return list(struct.iter_unpack("<qq", metadata[place + 4 : place + 4 + 16 * count]))


def _target(metadata: memoryview, reference: int) -> int:
    return reference + int(struct.unpack_from("<I", metadata, reference)[0])


def _field(metadata: memoryview, table: int, number: int) -> int:
    """Return the place of a field of a table; 0: it has its default."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    size = int(struct.unpack_from("<H", metadata, vtable)[0])
    entry = 4 + 2 * number
    if entry >= size:
        return 0
    [offset] = struct.unpack_from("<H", metadata, vtable + entry)
    return int(table + offset) if offset else 0


def expanded_size(array: pa.Array) -> int:
    """Return the size of a column as Python objects: a value that is meant several times counts as often."""
    kind, count = array.type, len(array)
    own = _VALUE_BYTES * count
    types = pa.types
    if types.is_dictionary(kind):
        if _is_text(kind.value_type):
            found = pc.sum(pc.take(pc.binary_length(array.dictionary), array.indices)).as_py()
            return own + int(found or 0)
        return own + count * expanded_size(array.dictionary)
    if types.is_run_end_encoded(kind):
        return own + count * expanded_size(array.values)
    if kind in (pa.string_view(), pa.binary_view()):
        lengths = memoryview(array.buffers()[1] or b"").cast("i")[4 * array.offset : 4 * (array.offset + count) : 4]
        return own + sum(length for length in lengths if length > 0)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return own + int(pc.sum(array.sizes).as_py() or 0) * max(_VALUE_BYTES, expanded_size(array.values))
    if types.is_union(kind):
        return own + count * sum(expanded_size(array.field(number)) for number in range(kind.num_fields))
    if types.is_struct(kind):
        return own + sum(expanded_size(array.field(number)) for number in range(kind.num_fields))
    if types.is_map(kind):
        return own + expanded_size(array.keys) + expanded_size(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return own + expanded_size(array.values)
    if isinstance(array, pa.ExtensionArray):
        return expanded_size(array.storage)
    return own + int(array.nbytes)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind)) or bool(
        types.is_large_binary(kind)
    )
