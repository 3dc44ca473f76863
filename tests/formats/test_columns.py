"""Messages as columns and back, with an independent Arrow library (spark-datasource: 5.5, 7)."""

import gc
import struct
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pytest
import xxhash

from headrace_core import (
    ColumnArray,
    EncodedBatch,
    InputArray,
    RecordColumns,
    RecordDecoder,
    RecordEncoder,
    RecordError,
    RowError,
)

PARTITION = 3
TYPES: dict[str, pa.DataType] = {
    "stream": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "origin_timestamp": pa.timestamp("us", tz="UTC"),
    "id": pa.binary(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


class Message(NamedTuple):
    """Fields of a message."""

    offset: int
    payload: bytes
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    id: bytes = b"0123456789abcdef"
    timestamp: int = 1_800_000_000_000_000
    origin_timestamp: int = 1_700_000_000_000_000


def user_header(key: str, value: bytes) -> bytes:
    """One header as it is written down: a text and raw bytes."""
    encoded = key.encode()
    return struct.pack("<BI", 2, len(encoded)) + encoded + struct.pack("<BI", 1, len(value)) + value


def packed(messages: Iterable[Message]) -> bytes:
    """A poll response: a header of 16 bytes, followed by messages with headers of 64."""
    whole = []
    for message in messages:
        pairs = [("headrace.key", message.key)] if message.key is not None else []
        headers = b"".join(user_header(key, value) for key, value in [*pairs, *message.headers])
        said = message.id + struct.pack(
            "<QQQIIQ",
            message.offset,
            message.timestamp,
            message.origin_timestamp,
            len(headers),
            len(message.payload),
            0,
        )
        said += message.payload + headers
        whole.append(struct.pack("<Q", xxhash.xxh3_64_intdigest(said)) + said)
    return struct.pack("<IQI", PARTITION, 10**6, len(whole)) + b"".join(whole)


def array(column: ColumnArray, kind: pa.DataType) -> pa.Array:
    """Wrap buffers, which are not copied."""
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in column.buffers]
    children = [array(child, kind.field(index).type) for index, child in enumerate(column.children)]
    return pa.Array.from_buffers(kind, column.length, buffers, column.null_count, 0, children)


def record_batch(columns: RecordColumns, names: Sequence[str]) -> pa.RecordBatch:
    """Wrap a batch, and have the library validate all of it."""
    arrays = [array(column, TYPES[name]) for column, name in zip(columns.columns, names, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, TYPES[name]) for name in names]))
    batch.validate(full=True)
    assert batch.num_rows == columns.rows
    return batch


def table(batches: Sequence[RecordColumns], names: Sequence[str]) -> pa.Table:
    """Wrap all of them."""
    return pa.Table.from_batches([record_batch(batch, names) for batch in batches])


MESSAGES = [
    Message(7, b"seven", key=b"a key", headers=[("trace", b"\x00\x01"), ("größe", b"x")]),
    Message(8, b"", id=bytes(15) + b"\x01"),
    Message(9, b"nine", headers=[("only", b"one")], origin_timestamp=2**64 - 1),
]
ROWS = {
    "stream": ["shop"] * 3,
    "topic": ["orders"] * 3,
    "partition": [PARTITION] * 3,
    "offset": [7, 8, 9],
    "timestamp": [1_800_000_000_000_000] * 3,
    "origin_timestamp": [1_700_000_000_000_000, 1_700_000_000_000_000, None],
    "id": [b"0123456789abcdef", bytes(15) + b"\x01", b"0123456789abcdef"],
    "key": [b"a key", None, None],
    "value": [b"seven", b"", b"nine"],
    "headers": [
        [{"key": "trace", "value": b"\x00\x01"}, {"key": "größe", "value": b"x"}],
        [],
        [{"key": "only", "value": b"one"}],
    ],
}


def decoder(names: Sequence[str] = (*TYPES,), *, start: int = 7, **settings: object) -> RecordDecoder:
    return RecordDecoder(names, start=start, partition=PARTITION, stream="shop", topic="orders", **settings)


def rows(batches: pa.Table) -> dict[str, list[object]]:
    """Values of a table by column, times as microseconds."""
    times = {
        name: batches[name].cast(pa.int64())
        for name in ("timestamp", "origin_timestamp")
        if name in batches.schema.names
    }
    return {name: times.get(name, batches[name]).to_pylist() for name in batches.schema.names}


@pytest.mark.parametrize(
    "names", [(*TYPES,), (*reversed(TYPES),), ("value", "offset"), ("headers",), ("key", "stream")]
)
def test_messages_become_columns(names: Sequence[str]) -> None:
    decoding = decoder(names)
    assert decoding.feed(packed(MESSAGES)) == []
    batches = decoding.finish()
    assert rows(table(batches, names)) == {name: ROWS[name] for name in names}
    assert (batches[0].first_offset, decoding.next_offset, decoding.is_complete) == (7, 10, False)


def test_without_columns_there_are_rows() -> None:
    decoding = decoder((), end=9)
    decoding.feed(packed(MESSAGES))
    (batch,) = decoding.finish()
    assert (batch.rows, batch.columns, decoding.is_complete) == (2, [], True)


def test_batches_are_bounded_and_payloads_put_together() -> None:
    messages = [Message(offset, b"%d" % offset) for offset in range(100)]
    decoding = decoder(("offset", "value"), start=5, end=95, batch_rows=40)
    batches = [batch for at in range(0, 100, 10) for batch in decoding.feed(packed(messages[at : at + 10]))]
    assert [batch.rows for batch in batches] == [40, 40]
    batches += decoding.finish()
    assert [(batch.first_offset, batch.rows) for batch in batches] == [(5, 40), (45, 40), (85, 10)]
    said = table(batches, ("offset", "value"))
    assert said["offset"].to_pylist() == [*range(5, 95)]
    assert said["value"].to_pylist() == [b"%d" % offset for offset in range(5, 95)]
    (first, *_) = decoder(("value",), start=0, batch_bytes=64).feed(packed(messages))
    assert sum(len(buffer) for buffer in first.columns[0].buffers if buffer is not None) <= 64 + 4


def read_only(data: bytes) -> memoryview:
    """A read-only view of writable memory: the codec copies it."""
    return memoryview(bytearray(data)).toreadonly()


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, read_only, pa.py_buffer, lambda data: pa.py_buffer(data).slice(0)]
)
def test_payloads_are_whatever_has_the_buffer_protocol(kind: type) -> None:
    decoding = decoder()
    decoding.feed(kind(packed(MESSAGES)))
    assert rows(table(decoding.finish(), (*TYPES,))) == ROWS
    with pytest.raises(TypeError):
        decoding.feed("text")  # type: ignore[arg-type]


def test_a_response_is_read_where_it_lies() -> None:
    polled = packed(MESSAGES)
    response = memoryview(b"before" + polled + b"behind")
    decoding = decoder()
    decoding.feed(response[6 : 6 + len(polled)])
    assert rows(table(decoding.finish(), (*TYPES,))) == ROWS


def test_columns_outlive_what_they_were_made_by() -> None:
    decoding = decoder()
    payload = packed(MESSAGES)
    decoding.feed(payload)
    said = table(decoding.finish(), (*TYPES,))
    del decoding, payload
    gc.collect()
    assert rows(said) == ROWS


def test_memory_of_columns_is_wrapped_and_never_written() -> None:
    decoding = decoder(("value",))
    decoding.feed(packed(MESSAGES))
    (batch,) = decoding.finish()
    data = batch.columns[0].buffers[2]
    assert data is not None
    view = memoryview(data)
    assert (view.readonly, view.tobytes(), len(data)) == (True, b"sevennine", 9)
    with pytest.raises(TypeError):
        view[0] = 0
    wrapped = record_batch(batch, ("value",))
    assert wrapped["value"].buffers()[2].address == pa.py_buffer(data).address
    before = sys.getrefcount(data)
    del wrapped
    assert sys.getrefcount(data) == before - 1


def error_of(payload: bytes, **settings: object) -> tuple[str, int | None, int, int | None]:
    with pytest.raises(RecordError) as raised:
        decoder(**settings).feed(payload)
    error = raised.value
    return error.defect, error.offset, error.byte, error.expected_offset


def test_what_is_wrong_has_a_name_and_a_place() -> None:
    payload = packed(MESSAGES)
    second = len(packed(MESSAGES[:1]))
    damaged = bytearray(payload)
    damaged[second + 8] ^= 1
    assert error_of(bytes(damaged)) == ("checksum", 8, second, None)
    decoding = decoder(verify=False)
    decoding.feed(bytes(damaged))
    assert decoding.next_offset == 10
    assert error_of(payload[:-1]) == ("truncated", 9, len(packed(MESSAGES[:2])), None)
    assert error_of(payload, start=6) == ("offset", 7, 16, 6)
    assert error_of(packed([MESSAGES[0], MESSAGES[2]])) == ("offset", 9, second, 8)
    assert error_of(bytes([4]) + payload[1:]) == ("partition", None, 0, None)
    assert error_of(payload + b"?") == ("count", None, len(payload), None)
    assert error_of(packed([Message(7, b"", timestamp=2**63)])) == ("range", 7, 16, None)


def test_after_an_error_reading_goes_on_behind_what_was_sound() -> None:
    decoding = decoder(batch_rows=2)
    cut = packed(MESSAGES)[:-1]
    with pytest.raises(RecordError):
        decoding.feed(cut)
    assert decoding.next_offset == 9
    batches = decoding.feed(packed(MESSAGES))
    assert [batch.rows for batch in batches] == [2]
    assert rows(table(batches + decoding.finish(), (*TYPES,))) == ROWS


@pytest.mark.parametrize(
    ("names", "settings", "text"),
    [
        (("offset", "Value"), {}, 'column "Value" does not exist: the columns are stream, topic, partition, offset'),
        (("key", "key"), {}, "key is named twice"),
        (("key",), {"end": 6}, "ends at 6, before its start 7"),
        (("key",), {"batch_rows": 0}, "batch_rows is 0"),
        (("key",), {"batch_bytes": 2**31}, "batch_bytes is 2147483648"),
    ],
)
def test_settings_that_make_no_sense_are_refused(names: Sequence[str], settings: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decoder(names, **settings)


def test_other_threads_run_while_payloads_are_decoded() -> None:
    """The GIL is released: another thread makes progress during a call."""
    payload = packed(Message(offset, b"x" * 1000) for offset in range(3000))
    ticks, is_over = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not is_over.is_set():
            ticks += 1
            time.sleep(0.0001)

    thread = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    # An interval so long that the GIL changes hands only where it is released.
    sys.setswitchinterval(60)
    try:
        thread.start()
        deadline = time.monotonic() + 30
        ticked = False
        while not ticked and time.monotonic() < deadline:
            decoding = decoder(("offset", "value"), start=0)
            before = ticks
            decoding.feed(payload)
            ticked = ticks > before
    finally:
        sys.setswitchinterval(interval)
        is_over.set()
        thread.join()
    assert ticked


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LARGE_HEADERS = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
SMALL = pa.schema(
    {
        "value": pa.binary(),
        "key": pa.string(),
        "headers": HEADERS,
        "id": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "partition": pa.int32(),
    }
)
LARGE = pa.schema(
    {
        **{field.name: field.type for field in SMALL},
        "value": pa.large_string(),
        "key": pa.large_binary(),
        "headers": LARGE_HEADERS,
        "id": pa.binary(16),
    }
)


def given(array: pa.Array) -> InputArray:
    """Wrap buffers, which are not copied."""
    kind, buffers, offset = array.type, array.buffers(), array.offset
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        layout = "list" if pa.types.is_list(kind) else "large_list"
        return InputArray(layout, buffers[:2], offset=offset, children=[given(array.values)])
    if pa.types.is_struct(kind):
        fields = [given(array.field(index)) for index in range(kind.num_fields)]
        return InputArray("struct", buffers[:1], offset=offset, children=fields)
    if pa.types.is_fixed_size_binary(kind):
        return InputArray("fixed_binary", buffers, offset=offset, width=kind.byte_width)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return InputArray(f"int{kind.bit_width}", buffers, offset=offset)
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    return InputArray("large_binary" if large else "binary", buffers, offset=offset)


def pushed(encoder: RecordEncoder, batch: pa.RecordBatch) -> list[EncodedBatch]:
    """Encode a batch of a library for Arrow."""
    columns = {name: given(batch.column(name)) for name in batch.schema.names}
    return encoder.push(batch.num_rows, **columns)


def messages_of(encoded: EncodedBatch) -> list[tuple[bytes, int, bytes, bytes]]:
    """Id, origin timestamp, payload and user headers of each message, read by the description of the form."""
    index_bytes, start, messages = 16 * encoded.messages_count, 0, []
    block = encoded.batch[index_bytes:]
    for entry in range(0, index_bytes, 16):
        zero, end, also_zero = struct.unpack_from("<IIQ", encoded.batch, entry)
        assert (zero, also_zero) == (0, 0)
        checksum, offset, timestamp, origin, headers_length, payload_length, reserved = struct.unpack_from(
            "<Q16x3QIIQ", block, start
        )
        assert (checksum, offset, timestamp, reserved) == (0, 0, 0, 0)
        payload = block[start + 64 : start + 64 + payload_length]
        headers = block[start + 64 + payload_length : end]
        assert (len(payload), len(headers)) == (payload_length, headers_length)
        messages.append((block[start + 8 : start + 24], origin, payload, headers))
        start = end
    assert start == len(block)
    return messages


INPUT = [
    {
        "value": b"one",
        "key": "key",
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}],
        "id": b"0123456789abcdef",
        "timestamp": 5,
        "partition": 1,
    },
    {"value": b"two", "key": None, "headers": None, "id": None, "timestamp": None, "partition": 1},
    {"value": b"three", "key": "user-123", "headers": [], "id": None, "timestamp": 6, "partition": None},
]
OUTPUT = {
    1: [
        (
            b"0123456789abcdef",
            5,
            b"one",
            user_header("headrace.key", b"key") + user_header("a", b"1") + user_header("b", b"2"),
        ),
        (bytes(16), 9, b"two", b""),
        # The reference's example: this key hashes to the second of three partitions.
        (bytes(16), 6, b"three", user_header("headrace.key", b"user-123")),
    ]
}


@pytest.mark.parametrize("schema", [SMALL, LARGE])
def test_columns_become_batches(schema: pa.Schema) -> None:
    encoder = RecordEncoder(partitions_count=3, origin_timestamp_micros=9)
    assert pushed(encoder, pa.RecordBatch.from_pylist(INPUT, schema=schema)) == []
    assert {batch.partition: messages_of(batch) for batch in encoder.finish()} == OUTPUT
    assert encoder.finish() == []


@pytest.mark.parametrize("schema", [SMALL, LARGE])
def test_slices_and_what_came_over_a_stream_become_the_same_batches(schema: pa.Schema) -> None:
    noise = {"value": b"not this", "headers": [{"key": "not", "value": b"this"}], "partition": 0}
    whole = pa.RecordBatch.from_pylist([noise] * 3 + INPUT + [noise], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(whole.slice(2, 5))
    (received,) = pa.ipc.open_stream(sink.getvalue())
    for batch in (whole.slice(3, 3), received.slice(1, 3)):
        encoder = RecordEncoder(partitions_count=3, origin_timestamp_micros=9)
        pushed(encoder, batch)
        assert {batch.partition: messages_of(batch) for batch in encoder.finish()} == OUTPUT


def test_batches_are_bounded_and_turns_taken() -> None:
    encoder = RecordEncoder(partitions_count=3, first_partition=2, batch_bytes=10 * 83)
    rows = pa.RecordBatch.from_pylist(
        [{"value": b"%03d" % row} for row in range(25)], schema=pa.schema([SMALL.field(0)])
    )
    batches = pushed(encoder, rows) + encoder.finish()
    assert [(batch.partition, batch.messages_count) for batch in batches] == [(2, 10), (0, 10), (1, 5)]
    payloads = [payload for batch in batches for _, _, payload, _ in messages_of(batch)]
    assert payloads == [b"%03d" % row for row in range(25)]


def test_a_row_that_cannot_be_a_message_is_named() -> None:
    encoder = RecordEncoder(partitions_count=3)
    rows = pa.RecordBatch.from_pylist([INPUT[0], {**INPUT[1], "partition": 3}], schema=SMALL)
    with pytest.raises(RowError, match="row 1, column partition: there is no partition 3, there are 3") as raised:
        pushed(encoder, rows)
    assert (raised.value.row, raised.value.column) == (1, "partition")
    assert [batch.messages_count for batch in encoder.finish()] == [1]


def test_arrays_that_do_not_fit_are_refused() -> None:
    encoder = RecordEncoder(partitions_count=1)
    texts, numbers = given(pa.array(["a"])), given(pa.array([1]))
    with pytest.raises(TypeError, match="column value has to be binary"):
        encoder.push(1, value=numbers)
    with pytest.raises(TypeError, match="column timestamp has to be int64"):
        encoder.push(1, value=texts, timestamp=texts)
    with pytest.raises(TypeError, match="column partition has to be int32"):
        encoder.push(1, value=texts, partition=numbers)
    with pytest.raises(TypeError, match="column headers has to be list of struct"):
        encoder.push(1, value=texts, headers=given(pa.array([["a"]])))
    with pytest.raises(ValueError, match="binary has 3 buffers and 0 children, not 2 and 0"):
        InputArray("binary", [None, b""])
    with pytest.raises(ValueError, match='layout "view" does not exist'):
        InputArray("view", [])  # type: ignore[arg-type]
    with pytest.raises(RowError, match="its buffers do not hold it"):
        encoder.push(2, value=texts)
    with pytest.raises(ValueError, match="0 partitions, 1 to 1048576 are allowed"):
        RecordEncoder(partitions_count=0)
