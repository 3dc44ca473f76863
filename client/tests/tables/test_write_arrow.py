"""Tables of Arrow libraries as messages: a scan of what was written gives the rows that were written (USE-13)."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace
import headrace.aio
from headrace.tables import COLUMNS
from headrace.testing import LocalServer

PARTITIONS = 3
COPIED = ("partition", "id", "key", "value", "headers")
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda name: name != "headrace.key")
HEADERS = st.lists(st.tuples(NAMES, st.binary(min_size=1, max_size=20)), max_size=3)
ROWS = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1),
        st.integers(1, 2**128 - 1).map(lambda number: number.to_bytes(16, "little")),
        st.none() | st.binary(min_size=1, max_size=255),
        st.binary(min_size=1, max_size=200),
        HEADERS,
    ),
    max_size=40,
)
SCHEMA = pa.schema([COLUMNS.field(name) for name in COPIED])


@pytest.fixture(scope="module")
def client(headrace_server: LocalServer) -> Iterator[headrace.Client]:
    with headrace.connect(headrace_server.url) as client:
        yield client


@pytest.fixture
def topic(headrace_server: LocalServer) -> tuple[str, str]:
    return headrace_server.fresh_topic(partitions=PARTITIONS)


def table_of(rows: list[tuple[object, ...]]) -> pa.Table:
    headers = [[{"key": name, "value": value} for name, value in row[4]] for row in rows]  # type: ignore[attr-defined]
    columns = [[row[index] for row in rows] for index in range(4)]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip([*columns, headers], SCHEMA, strict=True)], schema=SCHEMA
    )


def by_partition(table: pa.Table) -> list[dict[str, object]]:
    """Rows in the order in which a scan gives them."""
    rows: list[dict[str, object]] = table.to_pylist()
    return sorted(rows, key=lambda row: row["partition"])  # type: ignore[arg-type,return-value] # numbers


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, pieces=st.integers(1, 4))
def test_a_table_of_messages_is_written_and_read_again(
    client: headrace.Client, headrace_server: LocalServer, rows: list[tuple[object, ...]], pieces: int
) -> None:
    written = table_of(rows)
    chunks = written.to_batches(max_chunksize=max(1, len(rows) // pieces))
    first, second = (headrace_server.fresh_topic(partitions=PARTITIONS) for _ in range(2))
    with client.producer(*first) as producer:
        deliveries = producer.write_arrow(pa.Table.from_batches(chunks, SCHEMA))
    assert sum(count for _, count in deliveries.result()) == len(deliveries) == len(rows)
    read = client.scan(*first, columns=COPIED).table()
    assert read.to_pylist() == by_partition(written)
    with client.producer(*second) as producer:
        producer.write_arrow(client.scan(*first, columns=COLUMNS.names))
    assert client.scan(*second, columns=COPIED).table() == read


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_asyncio_writes_the_same(headrace_server: LocalServer, rows: list[tuple[object, ...]]) -> None:
    written = table_of(rows)
    first, second = (headrace_server.fresh_topic(partitions=PARTITIONS) for _ in range(2))

    async def copied() -> pa.Table:
        async with headrace.aio.connect(headrace_server.url) as client:
            async with client.producer(*first) as producer:
                deliveries = await producer.write_arrow(written)
                assert sum(count for _, count in await deliveries) == len(rows)
            async with client.producer(*second) as producer:
                # The scan reads from the same server while it is sent.
                await producer.write_arrow(client.scan(*first, columns=COLUMNS.names))
            return await client.scan(*second, columns=COPIED).table()

    assert asyncio.run(copied()).to_pylist() == by_partition(written)


ORDERS = pa.table({"customer": ["anna", "ben", "anna"], "price": [3, 4, None]})


def sources() -> dict[str, object]:
    connection = duckdb.connect()
    return {
        "pyarrow": ORDERS,
        "a record batch": ORDERS.to_batches()[0],
        "a reader": ORDERS.to_reader(),
        "Polars": polars.from_arrow(ORDERS),
        "DuckDB": connection.from_arrow(ORDERS).order("price"),
        "capsules of one array": Capsules(),
    }


class Capsules:
    """Has the interface of an array alone."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return ORDERS.to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("name", sources())
def test_every_library_is_written_as_json(client: headrace.Client, topic: tuple[str, str], name: str) -> None:
    with client.producer(*topic) as producer:
        producer.write_arrow(sources()[name], codec="json", key="customer")  # type: ignore[arg-type] # all are tables
    read = client.scan(*topic, columns=["key"], decode=ORDERS.schema).table()
    assert sorted(read.to_pylist(), key=str) == sorted(
        ({"key": row["customer"].encode(), **row} for row in ORDERS.to_pylist()), key=str
    )
    partitions = client.scan(*topic, columns=["partition", "key"]).table()
    assert len({row["partition"] for row in partitions.to_pylist() if row["key"] == b"anna"}) == 1


def test_many_rows_are_one_message_of_arrow(client: headrace.Client, topic: tuple[str, str]) -> None:
    numbers = pa.table({"n": range(100_000), "text": ["x" * 20] * 100_000})
    with client.producer(*topic) as producer:
        deliveries = producer.write_arrow(numbers, codec="arrow")
    payloads = client.scan(*topic, columns=["value"]).table()["value"].to_pylist()
    assert 1 < len(payloads) == len(deliveries) < 50
    read = pa.concat_tables([pa.ipc.open_stream(payload).read_all() for payload in payloads])
    assert read.sort_by("n") == numbers


def test_rows_wait_for_room(client: headrace.Client, topic: tuple[str, str]) -> None:
    values = pa.table({"value": [b"%06d" % number for number in range(20_000)], "partition": [0] * 20_000})
    with client.producer(*topic, buffer_bytes=50_000, batch_bytes=10_000) as producer:
        deliveries = producer.write_arrow(values)
    assert sum(count for _, count in deliveries.result()) == 20_000
    read = client.scan(*topic, columns=["value"], partitions=[0]).table()
    assert read["value"].to_pylist() == values["value"].to_pylist()


def test_a_full_buffer_is_an_error_without_time(client: headrace.Client, topic: tuple[str, str]) -> None:
    values = pa.table({"value": [bytes(1000)] * 1000})
    with client.producer(*topic, buffer_bytes=20_000, linger=5) as producer, pytest.raises(headrace.BufferFull):
        producer.write_arrow(values, timeout=0)


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        (ORDERS, {}, "payload: no column is named .value. or .payload., there are customer, price"),
        (ORDERS, {"payload": "price"}, r"payload: column .price. is Int64; taken are binary and string"),
        (ORDERS, {"payload": "custumer"}, "payload: there is no column .custumer.; there are customer, price"),
        (ORDERS, {"payload": "customer"}, r"column .price. \(Int64\) would not be sent"),
        (ORDERS, {"codec": "avro"}, "codec: .avro. is none of .json. and .arrow."),
        (ORDERS, {"codec": "arrow", "key": "customer"}, "key: codec .arrow. sends many rows in a message"),
        (ORDERS, {"payload": 7}, "payload: 7 is no text"),
        ([1, 2], {}, "table: list is no table of Arrow"),
        (pa.chunked_array([[1, 2]]), {}, "table: it cannot be read"),
        (pa.table({"value": ["a", None]}), {}, "row 1, column .value.: it is null"),
        (pa.table({"value": ["a"], "partition": [3]}), {}, "row 0: the topic has 3 partitions, and no partition 3"),
    ],
)
def test_mistakes_are_named(
    client: headrace.Client, topic: tuple[str, str], table: object, arguments: dict[str, object], message: str
) -> None:
    with client.producer(*topic) as producer, pytest.raises(headrace.InvalidArgument, match=message):
        producer.write_arrow(table, **arguments)  # type: ignore[arg-type] # they are wrong
    assert client.scan(*topic).table().num_rows == 0


def test_a_failure_of_the_table_is_reported(client: headrace.Client, topic: tuple[str, str]) -> None:
    schema = pa.schema([("value", pa.utf8())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": ["a"]}, schema=schema)
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with (
        client.producer(*topic) as producer,
        pytest.raises(headrace.InvalidArgument, match=r"table: it cannot be read: .*the disk is gone"),
    ):
        producer.write_arrow(reader)


def test_headers_of_telemetry_are_added(headrace_server: LocalServer, topic: tuple[str, str]) -> None:
    class Traced(headrace.Telemetry):
        def headers(self, stream: object, topic: object) -> dict[str, str]:
            return {"trace": f"{stream}/{topic}", "own": "hook"}

    table = pa.table(
        {"value": ["a", "b"], "headers": pa.array([[("own", "row")], None], pa.map_(pa.utf8(), pa.utf8()))}
    )
    options = headrace.ClientOptions(telemetry=Traced())
    with headrace.connect(headrace_server.url, options=options) as client:
        with client.producer(*topic) as producer:
            producer.write_arrow(table)
        found: list[dict[str, Any] | None] = []
        with client.consumer(*topic) as consumer:
            while len(found) < len(table):
                found += [message.headers for message in consumer.poll() or ()]
    trace = "/".join(topic)
    assert {frozenset(headers.items()) for headers in found if headers} == {
        frozenset({"own": own, "trace": trace}.items()) for own in ("row", "hook")
    }


def test_objects_are_read_by_any_reader_of_json(client: headrace.Client, topic: tuple[str, str]) -> None:
    table = pa.table({"text": ["a\nb", None], "nested": [{"n": [1, 2]}, {"n": None}]})
    with client.producer(*topic) as producer:
        producer.write_arrow(table, codec="json")
    payloads = client.scan(*topic, columns=["value"]).table()["value"].to_pylist()
    assert [json.loads(payload) for payload in payloads] == table.to_pylist()
