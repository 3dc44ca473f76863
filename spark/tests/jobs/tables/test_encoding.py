"""SPK-3: dictionaries for repeated values, delta encoding for ascending values, and equal values in all cases."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archived import batch, messages

from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.encoding import encoding


def encodings(table: pa.Table, use_dictionary: bool | None = None) -> dict[str, set[str]]:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **encoding(table, use_dictionary=use_dictionary))
    written = pa.BufferReader(sink.getvalue())
    assert pq.read_table(written).equals(table)
    group = pq.read_metadata(written).row_group(0)
    return {group.column(at).path_in_schema: set(group.column(at).encodings) for at in range(group.num_columns)}


@pytest.mark.parametrize("repeats", [True, False])
def test_dictionaries_where_values_repeat(repeats: bool) -> None:
    table = pa.Table.from_batches([batch(messages(0, 3000))])
    if repeats:
        value = RAW_SCHEMA.get_field_index("value")
        table = table.set_column(value, RAW_SCHEMA.field("value"), pa.array([b"one", b"two"] * 1500))
    found = encodings(table)
    has = {name for name, kinds in found.items() if "RLE_DICTIONARY" in kinds}
    assert has == {"key", "partition", "headers.list.element.key"} | ({"value"} if repeats else set())
    assert {name for name, kinds in found.items() if "DELTA_BINARY_PACKED" in kinds} == {
        "offset",
        "timestamp",
        "origin_timestamp",
    }


def test_columns_inside_of_columns() -> None:
    rows = [{"a": 7, "b": [{"c": f"c{at}"}] if at % 2 else None} for at in range(1000)]
    table = pa.table({"offset": list(range(1000)), "value": rows})
    found = encodings(table)
    assert "RLE_DICTIONARY" in found["value.a"]
    assert "RLE_DICTIONARY" not in found["value.b.list.element.c"]
    assert encodings(pa.table({"value": pa.array([None, None], pa.binary())}))


def test_as_one_wishes() -> None:
    table = pa.Table.from_batches([batch(messages(0, 100))])
    assert all("RLE_DICTIONARY" not in kinds for kinds in encodings(table, use_dictionary=False).values())
    assert all("RLE_DICTIONARY" in kinds for kinds in encodings(table, use_dictionary=True).values())
