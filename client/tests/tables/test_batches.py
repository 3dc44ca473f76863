"""Batches of a consumer are tables for every library with Arrow's C interface, without another copy (USE-13)."""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import duckdb
import nanoarrow
import polars
import pyarrow as pa
import pytest

import headrace
import headrace.aio
from headrace.sdk.arrow_tables import Batches
from headrace.tables import COLUMNS, record_batch
from headrace.testing import LocalServer
from headrace_core import batch_stream

ROWS = 500
DEFAULT = ["partition", "offset", "timestamp", "key", "value"]


@pytest.fixture(scope="module")
def filled(headrace_server: LocalServer) -> Iterator[tuple[headrace.Client, str, str]]:
    stream, topic = headrace_server.fresh_topic(partitions=1)
    with headrace.connect(headrace_server.url) as client:
        with client.producer(stream, topic, batch_messages=100) as producer:
            for number in range(ROWS):
                producer.send(b"%d" % number, key=f"k{number % 5}" if number % 2 else None, headers={"n": "x"})
        yield client, stream, topic


@pytest.fixture
def batch(filled: tuple[headrace.Client, str, str]) -> headrace.Batch:
    client, stream, topic = filled
    with client.consumer(stream, topic) as consumer:
        found = consumer.poll(60)
    assert found is not None
    return found


def test_libraries_read_a_batch_as_poll_arrow_gives_it(batch: headrace.Batch) -> None:
    expected = record_batch(batch)
    assert pa.record_batch(batch) == expected
    assert pa.schema(batch) == expected.schema == pa.record_batch(batch).schema
    assert pa.table(batch).to_batches()[0] == expected
    assert pa.RecordBatchReader.from_stream(batch).read_all() == pa.table(batch)
    frame = polars.DataFrame(batch)
    rows = polars.from_arrow(batch)
    assert isinstance(rows, polars.Series), "of structs, as of every table that is not of pyarrow"
    assert rows.struct.unnest().equals(frame)
    assert frame.to_arrow().cast(expected.schema).to_pylist() == expected.to_pylist()
    assert nanoarrow.Array(batch).to_pylist() == expected.to_pylist()
    relation = duckdb.connect().from_arrow(pa.table(batch))
    assert relation.aggregate('count(*), max("offset")').fetchall() == [(len(batch), batch.next_offset - 1)]


def test_duckdb_reads_a_batch_by_its_name(batch: headrace.Batch) -> None:
    rows = duckdb.connect().sql('SELECT count(*), count("key") FROM batch').fetchall()
    assert rows == [(len(batch), len(batch) // 2)]


def test_a_requested_schema_chooses_columns_and_types(batch: headrace.Batch) -> None:
    wanted = pa.schema([pa.field("value", pa.utf8(), nullable=False), pa.field("offset", pa.int32())])
    (_, array) = batch.__arrow_c_array__(wanted.__arrow_c_schema__())
    found = pa.RecordBatch._import_from_c_capsule(wanted.__arrow_c_schema__(), array)
    assert found["value"].to_pylist() == [payload.decode() for payload in batch.payloads()]
    assert found["offset"].to_pylist() == list(range(batch.first_offset, batch.next_offset))
    names = [name for name in COLUMNS.names if name not in {"stream", "topic"}]
    everything = pa.schema([COLUMNS.field(name) for name in names])
    assert pa.record_batch(batch, schema=everything) == record_batch(batch, names)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (pa.field("price", pa.int64()), "requested_schema: column .price. is none of stream, topic, partition"),
        (pa.field("headers", pa.int64()), r"requested_schema: column .headers. is List\(.*cannot be given as Int64"),
        (pa.field("topic", pa.utf8()), "requested_schema: column .topic.: a batch does not know it"),
        (pa.field("value", pa.int8()), "requested_schema: "),
    ],
)
def test_a_schema_that_cannot_be_given_is_an_error(batch: headrace.Batch, field: pa.Field, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batch.__arrow_c_array__(pa.schema([field]).__arrow_c_schema__())


def test_a_record_batch_outlives_its_consumer_and_its_batch(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    with client.consumer(stream, topic) as consumer:
        batch = consumer.poll(60)
        assert batch is not None
        found = pa.record_batch(batch)
        expected = [b"%d" % number for number in range(len(batch))]
        del batch
    assert found["value"].to_pylist() == expected


def all_batches(consumer: headrace.Consumer, monkeypatch: pytest.MonkeyPatch) -> Batches:
    """All batches of the topic. Silence ends the iterator once they were read, not a server that is slow."""
    poll, left = consumer.poll, ROWS

    def poll_while_any_are_left(_timeout: float | None) -> headrace.Batch | None:
        nonlocal left
        batch = poll(60 if left else 0)
        left -= len(batch or ())
        return batch

    monkeypatch.setattr(consumer, "poll", poll_while_any_are_left)
    return consumer.batches(timeout=0.5)


def test_batches_of_a_consumer_are_a_stream(
    filled: tuple[headrace.Client, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, stream, topic = filled
    with client.consumer(stream, topic) as consumer:
        table = pa.table(all_batches(consumer, monkeypatch))
    assert table == client.scan(stream, topic).table()
    with client.consumer(stream, topic) as consumer:
        reader = pa.RecordBatchReader.from_stream(all_batches(consumer, monkeypatch), schema=COLUMNS)
        rows = reader.read_all()
    assert rows == client.scan(stream, topic, columns=COLUMNS.names).table()
    with client.consumer(stream, topic) as consumer:
        frame = polars.DataFrame(all_batches(consumer, monkeypatch))
    assert frame["offset"].to_list() == list(range(ROWS))


def test_a_stream_reads_no_further_than_it_is_asked(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    with client.consumer(stream, topic, batch_messages=100) as consumer:
        reader = pa.RecordBatchReader.from_stream(consumer.batches())
        first = reader.read_next_batch()
        assert first["offset"][0].as_py() == 0
        following = consumer.poll(60)
        assert following is not None
        assert following.first_offset == first.num_rows


def test_an_error_of_the_consumer_reaches_the_library(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    with client.consumer(stream, topic) as consumer:
        reader = pa.RecordBatchReader.from_stream(consumer.batches())
    with pytest.raises(pa.ArrowInvalid, match="ClientClosed: the consumer is closed"):
        reader.read_next_batch()


class Nested:
    """Does something within a call of the native module."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def __iter__(self) -> Iterator[headrace.Batch]:
        self._work()
        return iter(())


def test_a_stream_is_read_and_released_within_a_native_call(filled: tuple[headrace.Client, str, str]) -> None:
    """The library releases the interpreter's lock there, and the native module must not take it for granted."""
    client, stream, topic = filled
    with client.consumer(stream, topic) as consumer:
        held: list[Any] = [pa.RecordBatchReader.from_stream(consumer.batches())]
        found: list[pa.RecordBatch] = []
        batch_stream(Nested(partial(read_into, found, held[0])), stream="s", topic="t")
        assert found[0]["offset"][0].as_py() == 0
        # A cycle, which only the garbage collector frees.
        held.append(held)
        del held
        batch_stream(Nested(gc.collect), stream="s", topic="t")


def read_into(found: list[pa.RecordBatch], reader: pa.RecordBatchReader) -> None:
    found.append(reader.read_next_batch())


async def test_batches_of_asyncio_are_tables(
    filled: tuple[headrace.Client, str, str], headrace_server: LocalServer
) -> None:
    (_, stream, topic) = filled
    async with headrace.aio.connect(headrace_server.url) as client, client.consumer(stream, topic) as consumer:
        found: list[pa.RecordBatch] = []
        async for batch in consumer.batches(timeout=60):
            found.append(pa.record_batch(batch))
            if sum(one.num_rows for one in found) >= ROWS:
                break
    table = pa.Table.from_batches(found)
    assert table.column_names == DEFAULT
    assert table["value"].to_pylist() == [b"%d" % number for number in range(ROWS)]
