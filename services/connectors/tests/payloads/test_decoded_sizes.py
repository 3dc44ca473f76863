"""Decoders are bounded by what comes out of them: a few bytes may stand for gigabytes."""

from __future__ import annotations

import datetime
import json
import tracemalloc
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.codecs.arrow import ArrowCodec
from headrace_connectors.codecs.avro import AvroCodec, AvroSettings
from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.codecs.protobuf import ProtobufCodec, ProtobufSettings
from headrace_connectors.contract import InvalidRecord, Settings

MIB = 2**20
NODE = {"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}
EMPTY = {"type": "record", "name": "e", "fields": [{"name": "nothing", "type": "null"}]}


def stream(*batches: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as written:
        for batch in batches:
            written.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch(column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column], ["c"])


def zeros(count: int) -> pa.RecordBatch:
    return batch(pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(bytes(8 * count))]))


def whole(number: int) -> bytes:
    """A number as Avro encodes it."""
    number <<= 1
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def avro(tmp_path, schema) -> AvroCodec:
    path = tmp_path / "schema.avsc"
    path.write_text(json.dumps(schema), encoding="utf-8")
    return AvroCodec(AvroSettings(schema_file=path))


LONG = "x" * 500_000
BOMBS = {
    "zstd": stream(zeros(2_000_000), compression="zstd"),
    "lz4": stream(zeros(2_000_000), compression="lz4"),
    "nulls": stream(batch(pa.nulls(2_000_000))),
    "structs without fields": stream(batch(pa.StructArray.from_buffers(pa.struct([]), 2_000_000, [None]))),
    "runs": stream(batch(pa.RunEndEncodedArray.from_arrays([2_000_000], ["x"]))),
    "many batches": stream(*[zeros(10_000)] * 200, compression="zstd"),
    "a dictionary": stream(
        batch(pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int8()), [LONG])), compression="zstd"
    ),
    "a dictionary of lists": stream(
        batch(pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int8()), pa.array([[1] * 10_000])))
    ),
    "runs of a text": stream(batch(pa.RunEndEncodedArray.from_arrays([10_000], [LONG]))),
    "views of a text": stream(
        batch(
            pa.Array.from_buffers(
                pa.string_view(),
                1000,
                [
                    None,
                    pa.py_buffer(
                        (len(LONG).to_bytes(4, "little") + b"xxxx" + bytes(8)) * 1000,
                    ),
                    pa.py_buffer(LONG.encode()),
                ],
            )
        )
    ),
    "views of a list": stream(
        batch(pa.ListViewArray.from_arrays([0] * 10_000, [10_000] * 10_000, pa.array([1] * 10_000, pa.int8())))
    ),
}


@pytest.mark.parametrize("encoded", BOMBS.values(), ids=BOMBS.keys())
def test_a_small_stream_of_arrow_does_not_become_large(encoded):
    """Regression: 5,216 bytes took 4.1 GB and 19 s."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        for call in (ArrowCodec(Settings()).decode, ArrowCodec(Settings()).encode):
            with pytest.raises(InvalidRecord, match="would take about"):
                call(encoded)
        assert tracemalloc.get_traced_memory()[1] < 32 * MIB
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 32 * MIB


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "n": st.none() | st.integers(-(2**63), 2**63 - 1),
                "t": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
                "l": st.none() | st.lists(st.integers(0, 9), max_size=4),
                "s": st.fixed_dictionaries({"a": st.booleans()}),
                "d": st.dates(datetime.date(1970, 1, 1)),
            }
        ),
        min_size=1,
        max_size=20,
    )
)
def test_other_streams_are_decoded(compression, rows):
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("t", pa.dictionary(pa.int16(), pa.string())),
            ("l", pa.list_(pa.int8())),
            ("s", pa.struct([("a", pa.bool_())])),
            ("d", pa.date32()),
        ]
    )
    encoded = stream(pa.RecordBatch.from_pylist(rows, schema), compression=compression)
    found, size = ArrowCodec(Settings()).decode_bounded(encoded, MIB)
    assert found == rows
    assert 0 < size <= MIB


@pytest.mark.parametrize("kind", [pa.string_view(), pa.list_view(pa.int8()), pa.map_(pa.string(), pa.int8())])
def test_other_columns_are_decoded(kind):
    values = {pa.string_view(): ["short", LONG, None], pa.list_view(pa.int8()): [[1, 2], None, []]}
    expected = values.get(kind, [[("a", 1)], None])
    assert ArrowCodec(Settings()).decode(stream(batch(pa.array(expected, kind)))) == [{"c": one} for one in expected]


@pytest.mark.parametrize(
    ("schema", "encoded", "reason"),
    [
        ({"type": "array", "items": "null"}, whole(60_000_000) + b"\0", "items without bytes"),
        ({"type": "array", "items": EMPTY}, whole(60_000_000) + b"\0", "items without bytes"),
        (
            {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
            whole(60_000_000) + b"\0",
            "items without bytes",
        ),
        ({"type": "array", "items": "null"}, (whole(1000) + b"") * 100 + b"\0", "items without bytes"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, whole(600_000) + bytes(600_001), "memory"),
        ({"type": "map", "values": "null"}, whole(1_500_000) + bytes(1_500_001), "memory"),
        (NODE, whole(1) * 5000 + b"\0", "nested more than 200 deep"),
        (NODE, whole(1) * 5_000_000 + b"\0", "nested more than 200 deep"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 10},
            whole(100_000) + b"\x7f" * 100_000,
            "a decimal has 100000 bytes",
        ),
    ],
)
def test_a_small_value_of_avro_does_not_become_large(tmp_path, schema, encoded, reason):
    """Regression: 5 bytes became 60 million items, and 5 kB ended the process: the stack of the library overflowed."""
    with pytest.raises(InvalidRecord, match=reason):
        avro(tmp_path, schema).decode(encoded)


def test_other_values_of_avro_are_decoded(tmp_path):
    codec = avro(tmp_path, NODE)
    value = None
    for _ in range(50):
        value = {"next": value}
    assert codec.decode(codec.encode(value)) == value
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    fields = [
        {"name": "prices", "type": {"type": "array", "items": price}},
        {"name": "named", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "empty", "type": {"type": "array", "items": "null"}},
        {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["a", "b"]}},
        {"name": "raw", "type": {"type": "fixed", "name": "r", "size": 3}},
        {"name": "again", "type": "r"},
    ]
    codec = avro(tmp_path, {"type": "record", "name": "all", "fields": fields})
    value = {
        "prices": [Decimal("1.25")],
        "named": {"x": None, "y": "z"},
        "empty": [None] * 3,
        "kind": "b",
        "raw": b"abc",
        "again": b"def",
    }
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("body", [b"[" + b"[]," * 1_500_000 + b"1]", b"[" + b"{}," * 500_000 + b"1]"])
def test_json_does_not_become_large(body):
    with pytest.raises(InvalidRecord, match="would take about"):
        JsonCodec(Settings()).decode_bounded(body, 64 * MIB)
    assert JsonCodec(Settings()).decode_bounded(b'"' + b"x" * 2 * MIB + b'"', 4 * MIB)[0] == "x" * 2 * MIB


def test_a_message_of_protobuf_does_not_become_large(tmp_path):
    codec = ProtobufCodec(ProtobufSettings(message="google.protobuf.ListValue", module="google.protobuf.struct_pb2"))
    message = struct_pb2.ListValue(values=[struct_pb2.Value(bool_value=True)] * 300_000)
    with pytest.raises(InvalidRecord, match="would take about"):
        codec.decode_bounded(message.SerializeToString(), 64 * MIB)
    assert codec.decode_bounded(message.SerializeToString(), 512 * MIB)[0] == [True] * 300_000
