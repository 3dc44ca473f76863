"""Digest of messages: conforms to its documentation, for any division into batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as some

from pyspark_headrace.columns.digest import digest, total

TIMES = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [("value", pa.binary()), ("offset", pa.int64()), ("timestamp", TIMES), ("key", pa.binary()), ("topic", pa.string())]
)
Row = tuple[int, int, bytes | None, bytes]

rows = some.lists(
    some.tuples(
        some.integers(0, 2**62),
        some.integers(0, 2**52),
        some.none() | some.binary(max_size=40),
        some.binary(max_size=300),
    ),
    max_size=20,
)


def table(messages: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*messages, strict=True)] or [[], [], [], []]
    offsets, times, keys, values = columns
    arrays = [pa.array(values, pa.binary()), pa.array(offsets, pa.int64()), pa.array(times, TIMES)]
    arrays += [pa.array(keys, pa.binary()), pa.array(["t"] * len(messages))]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def reference(messages: list[Row]) -> int:
    result = 0
    for offset, time, key, value in messages:
        payload = xxhash.xxh3_64_intdigest(value, seed=offset)
        result += xxhash.xxh3_64_intdigest(key or b"", seed=(payload + time) % 2**64)
    return result % 2**64


@given(messages=rows, cut=some.integers(0, 20))
def test_parts_add_up(messages: list[Row], cut: int) -> None:
    whole = table(messages)
    assert digest(whole) == reference(messages)
    assert total([digest(whole.slice(0, cut)), digest(whole.slice(cut))]) == digest(whole)


def test_what_cannot_be_digested() -> None:
    whole = table([(0, 0, None, b"v")])
    for name in ("offset", "timestamp", "value"):
        index = whole.schema.get_field_index(name)
        without = whole.set_column(index, name, pa.nulls(1, whole.schema.field(name).type))
        with pytest.raises(ValueError, match=f"row 0, column {name}: it is null"):
            digest(without)
    seconds = whole.set_column(2, "timestamp", whole.column("timestamp").cast(pa.timestamp("s", tz="UTC")))
    assert digest(seconds) == digest(whole)
