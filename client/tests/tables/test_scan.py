"""Topics as tables: what a scan gives is what reading everything and filtering gives (USE-9)."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Self

import duckdb
import msgspec
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace
import headrace.aio
import headrace.aio.scan
from headrace.tables import COLUMNS
from headrace.tables.decoding import decoder
from headrace.tables.scan import Scan
from headrace.tables.selection import Range
from headrace.testing import LocalServer

ROWS = 300


@pytest.fixture(scope="module")
def filled(headrace_server: LocalServer) -> Iterator[tuple[headrace.Client, str, str]]:
    """A topic of three partitions, filled in steps with moments between them; the last partition is empty."""
    stream, topic = headrace_server.fresh_topic(partitions=3)
    with headrace.connect(headrace_server.url) as client:
        with client.producer(stream, topic, linger=0) as producer:
            for step in range(10):
                for number in range(ROWS // 10):
                    row = step * (ROWS // 10) + number
                    payload = json.dumps({"n": row, "name": f"name {row}", "tags": ["a"] if row % 2 else None}).encode()
                    producer.send(payload, partition=row % 2, key=f"key-{row % 7}", headers={"step": step})
                producer.flush()
                time.sleep(0.002)
        yield client, stream, topic


def test_all_columns(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    table = client.scan(stream, topic, columns=COLUMNS.names).table()
    assert table.schema == COLUMNS
    assert table.num_rows == ROWS
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["stream"], first["topic"], first["partition"], first["offset"]) == (stream, topic, 0, 0)
    assert first["key"] == b"key-0"
    assert [header["key"] for header in first["headers"]] == ["step"]
    assert abs(first["timestamp"] - datetime.now(UTC)) < timedelta(minutes=5)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_scan_gives_what_a_filter_of_everything_gives(
    filled: tuple[headrace.Client, str, str], data: st.DataObject
) -> None:
    client, stream, topic = filled
    everything = client.scan(stream, topic).table()
    moments = st.sampled_from(everything["timestamp"].to_pylist())
    since, until = data.draw(st.none() | moments), data.draw(st.none() | moments)
    partitions = data.draw(st.none() | st.lists(st.integers(0, 2), unique=True))
    offsets = data.draw(st.none() | st.tuples(st.integers(0, 160), st.integers(0, 160)))
    wanted = everything
    if since is not None:
        wanted = wanted.filter(pc.field("timestamp") >= since)
    if until is not None:
        wanted = wanted.filter(pc.field("timestamp") < until)
    if partitions is not None:
        wanted = wanted.filter(pc.field("partition").isin(pa.array(partitions, pa.int32())))
    if offsets is not None:
        wanted = wanted.filter((pc.field("offset") >= offsets[0]) & (pc.field("offset") < offsets[1]))
    scan = client.scan(stream, topic, since=since, until=until, partitions=partitions, offsets=offsets)
    assert scan.table().to_pylist() == wanted.to_pylist()
    assert sum(part.end - part.start for part in scan.ranges()) == wanted.num_rows, "more was read than was asked for"


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_scan_of_asyncio_gives_what_the_other_gives(
    filled: tuple[headrace.Client, str, str], headrace_server: LocalServer, data: st.DataObject
) -> None:
    client, stream, topic = filled
    moments = st.sampled_from(client.scan(stream, topic).table()["timestamp"].to_pylist())
    since, until = data.draw(st.none() | moments), data.draw(st.none() | moments)
    partitions = data.draw(st.none() | st.lists(st.integers(0, 2), unique=True))
    offsets = data.draw(st.none() | st.tuples(st.integers(0, 160), st.integers(0, 160)))
    wanted = client.scan(stream, topic, since=since, until=until, partitions=partitions, offsets=offsets)

    async def scanned() -> None:
        async with headrace.aio.connect(headrace_server.url) as waiting:
            scan = waiting.scan(stream, topic, since=since, until=until, partitions=partitions, offsets=offsets)
            assert scan.schema == wanted.schema
            assert await scan.ranges() == wanted.ranges()
            assert (await scan.table()).to_pylist() == wanted.table().to_pylist()

    asyncio.run(scanned())


class Silent:
    """A consumer to which no message comes."""

    def poll(self, timeout: float | None = None) -> None:
        assert timeout is not None, "it would wait for ever"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class AwaitedSilent:
    """The same for asyncio."""

    async def poll(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as of `headrace.aio.Consumer`
        assert timeout is not None, "it would wait for ever"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Partition:
    """Calls of a client whose topic has one partition, which answers with these first and next offsets in turn.

    None stands for a refusal, because its node is away. The statistics of the topic are those of a gateway that has not
    heard of the node, and no message can be read.
    """

    def __init__(self, *extents: tuple[int, int] | None) -> None:
        self._extents = iter(extents)

    def topic(self, _stream: str, _topic: str) -> Any:
        return SimpleNamespace(partitions=[SimpleNamespace(id=0, messages_count=0, current_offset=0)])

    def plan(self, _stream: str, _topic: str, _partition: int) -> Any:
        extent = next(self._extents)
        if extent is None:
            raise headrace.RequestRefused("no node", code=20200, retryable=True)
        return SimpleNamespace(first_offset=extent[0], next_offset=extent[1])

    def consumer(self, *_: object, **_options: object) -> Any:
        return Silent()


class AwaitedPartition(Partition):
    """The same for asyncio."""

    async def topic(self, _stream: str, _topic: str) -> Any:
        return super().topic(_stream, _topic)

    async def plan(self, _stream: str, _topic: str, _partition: int) -> Any:
        return super().plan(_stream, _topic, _partition)

    def consumer(self, *_: object, **_options: object) -> Any:
        return AwaitedSilent()


def scan_of(*extents: tuple[int, int] | None) -> Scan:
    client: Any = Partition(*extents)
    return Scan(client=client, stream="s", topic="t")


def awaited_scan_of(*extents: tuple[int, int] | None) -> headrace.aio.scan.Scan:
    client: Any = AwaitedPartition(*extents)
    return headrace.aio.scan.Scan(client=client, stream="s", topic="t")


async def test_a_partition_is_asked_itself_for_its_offsets() -> None:
    assert scan_of((2, 5)).ranges() == [Range(0, 2, 5)]
    assert await awaited_scan_of((2, 5)).ranges() == [Range(0, 2, 5)]
    assert scan_of((5, 5)).ranges() == []


async def test_a_scan_ends_if_the_rest_of_its_range_was_removed() -> None:
    """The messages are still there, the node is away, and then retention has removed them."""
    extents = ((0, 5), (0, 5), None, (6, 8))
    assert scan_of(*extents).table().num_rows == 0
    assert (await awaited_scan_of(*extents).table()).num_rows == 0


async def test_a_scan_of_asyncio_fails_if_its_partition_was_purged() -> None:
    with pytest.raises(headrace.HeadraceError, match="partition 0 was purged"):
        await awaited_scan_of((0, 5), (0, 2)).table()


def test_a_scan_fails_if_its_partition_was_purged(
    headrace_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, topic = headrace_server.fresh_topic()
    with headrace.connect(headrace_server.url) as client:
        with client.producer(stream, topic) as producer:
            producer.send_many([b"1", b"2"])
        ranges = Scan.ranges

        def purged(scan: Scan) -> list[Range]:
            found = ranges(scan)
            client.purge_topic(stream, topic)
            return found

        monkeypatch.setattr(Scan, "ranges", purged)
        with pytest.raises(headrace.HeadraceError, match="partition 0 was purged") as failed:
            client.scan(stream, topic).table()
        assert failed.value.retryable


class Struct(msgspec.Struct):
    n: int
    name: str
    tags: list[str] | None = None


class Model(pydantic.BaseModel):
    n: int
    name: str
    tags: list[str] | None = None


class Renamed(msgspec.Struct, rename={"number": "n"}):
    number: int
    name: str
    tags: list[str] | None = None


class Aliased(pydantic.BaseModel):
    number: int = pydantic.Field(alias="n")
    name: str = pydantic.Field(serialization_alias="title")
    tags: list[str] | None = None


class Written(Aliased):
    """Unless it is asked for something else, it is written with its aliases."""

    model_config = pydantic.ConfigDict(serialize_by_alias=True)


@pytest.mark.parametrize(
    ("form", "number"),
    [
        (pa.schema([("n", pa.int64()), ("name", pa.utf8())]), "n"),
        (Struct, "n"),
        (Renamed, "n"),
        (Model, "n"),
        (Aliased, "number"),
        (Written, "number"),
    ],
)
def test_payloads_become_columns(filled: tuple[headrace.Client, str, str], form: object, number: str) -> None:
    client, stream, topic = filled
    table = client.scan(stream, topic, columns=["offset"], decode=form).table().sort_by(number)
    assert table[number].to_pylist() == list(range(ROWS))
    assert table["name"][7].as_py() == "name 7"
    if isinstance(form, pa.Schema):
        return
    assert table["tags"].to_pylist()[:2] == [None, '["a"]']


class Place(pydantic.BaseModel):
    city: str = pydantic.Field(alias="town")


class Parcel(pydantic.BaseModel):
    to: Place = pydantic.Field(alias="destination")


def test_nested_models_are_named_after_their_fields_too() -> None:
    decode, schema = decoder(Parcel)
    rows = decode(pa.array([b'{"destination": {"town": "Delft"}}'], pa.binary()))
    assert rows.schema == schema
    assert rows.to_pylist() == [{"to": '{"city": "Delft"}'}]


def test_a_filter_is_applied(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    scan = client.scan(stream, topic, where=pc.field("key") == b"key-3")
    assert set(scan.table()["key"].to_pylist()) == {b"key-3"}
    # The query needs no column of the filter.
    assert scan.lazy().select("offset").collect()["offset"].to_list() == scan.table()["offset"].to_pylist()


def test_polars_reads_what_a_query_needs(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    frame = client.scan(stream, topic).lazy()
    found = frame.filter(polars.col("partition") == 1).group_by("key").len().collect()
    assert found["len"].sum() == ROWS // 2
    assert frame.select("offset").head(5).collect().height == 5


def test_duckdb_queries_a_topic(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    relation = client.scan(stream, topic, decode=Struct, columns=["partition"]).relation(duckdb.connect())
    assert relation.aggregate("sum(n), count(*)").fetchall() == [(ROWS * (ROWS - 1) // 2, ROWS)]


def test_a_consumer_hands_out_record_batches(filled: tuple[headrace.Client, str, str]) -> None:
    client, stream, topic = filled
    with client.consumer(stream, topic) as consumer:
        batch = consumer.poll_arrow(10, columns=["offset", "value"])
        assert batch is not None
        assert batch.schema.names == ["offset", "value"]
        assert batch["offset"].to_pylist() == list(range(batch.num_rows))


async def test_a_consumer_of_asyncio_hands_out_record_batches(
    filled: tuple[headrace.Client, str, str], headrace_server: LocalServer
) -> None:
    (_, stream, topic) = filled
    async with (
        headrace.aio.connect(headrace_server.url) as client,
        client.consumer(stream, topic, partitions=[0]) as consumer,
    ):
        batch = await consumer.poll_arrow(10)
        assert batch is not None
        assert batch.schema.names == ["partition", "offset", "timestamp", "key", "value"]
        assert batch["offset"].to_pylist() == list(range(batch.num_rows))
        rows = batch.num_rows
        while rows < ROWS // 2:
            batch = await consumer.poll_arrow(10, columns=["offset"])
            assert batch is not None
            rows += batch.num_rows
        assert await consumer.poll_arrow(0) is None


async def test_libraries_read_a_scan_of_asyncio_on_their_threads(
    filled: tuple[headrace.Client, str, str], headrace_server: LocalServer
) -> None:
    (_, stream, topic) = filled
    async with headrace.aio.connect(headrace_server.url) as client:
        scan = client.scan(stream, topic, decode=Struct, columns=["partition", "offset"])
        found = await scan.lazy().filter(polars.col("partition") == 1).select(polars.len()).collect_async()
        assert found.item() == ROWS // 2
        relation = scan.relation(duckdb.connect()).aggregate("sum(n), count(*)")
        assert await asyncio.to_thread(relation.fetchall) == [(ROWS * (ROWS - 1) // 2, ROWS)]
        assert (await asyncio.to_thread(pa.table, scan)).num_rows == ROWS
        with pytest.raises(headrace.InvalidArgument, match="columns: 'ofset' is none of"):
            client.scan(stream, topic, columns=["ofset"])


async def test_a_scan_of_asyncio_needs_a_connection() -> None:
    with pytest.raises(headrace.ClientClosed, match="not connected: use `async with`"):
        headrace.aio.connect("headrace://127.0.0.1:1", username="root", password="secret").scan("s", "t")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["ofset"]}, "columns: 'ofset' is none of stream, topic, partition"),
        ({"columns": ["offset", "offset"]}, "columns: one is named twice"),
        ({"on_error": "ignore"}, "on_error: 'ignore' is none of 'raise', 'null', 'skip'"),
        (
            {"on_error": "null", "decode": pa.schema([pa.field("n", pa.int64(), nullable=False)])},
            "on_error: the column 'n' may not be null",
        ),
        ({"decode": int}, "is no pyarrow schema, no msgspec struct and no pydantic model"),
        (
            {"decode": pa.schema([("offset", pa.int64())])},
            "'offset' is a column of the message and of the decoded payload",
        ),
    ],
)
def test_mistakes_are_named(
    filled: tuple[headrace.Client, str, str], arguments: dict[str, object], message: str
) -> None:
    client, stream, topic = filled
    with pytest.raises(headrace.InvalidArgument, match=message.replace("(", r"\(")):
        client.scan(stream, topic, **arguments)  # type: ignore[arg-type] # they are wrong


@pytest.mark.parametrize("form", [pa.schema([("n", pa.int64())]), Struct, Model], ids=["schema", "msgspec", "pydantic"])
@pytest.mark.parametrize("payload", [b"no JSON", b'{"n": "one", "name": "a"}'])
def test_a_payload_that_does_not_fit_is_named(headrace_server: LocalServer, form: object, payload: bytes) -> None:
    stream, topic = headrace_server.fresh_topic()
    with headrace.connect(headrace_server.url) as client:
        with client.producer(stream, topic) as producer:
            for number in range(20):
                producer.send(payload if number == 13 else b'{"n": 1, "name": "a"}')
        with pytest.raises(headrace.InvalidArgument, match="a payload does not fit") as raised:
            client.scan(stream, topic, decode=form).table()
        assert str(raised.value).endswith(f"[offset 13 of partition 0 of topic '{topic}' in stream '{stream}']")


@pytest.mark.parametrize("form", [pa.schema([("n", pa.int64())]), Struct, Model], ids=["schema", "msgspec", "pydantic"])
async def test_payloads_that_do_not_fit_are_passed_over(headrace_server: LocalServer, form: object) -> None:
    """One of them does not make the topic unreadable: the others are rows, by every way to read."""
    stream, topic = headrace_server.fresh_topic()
    wrong = {0: b"no JSON", 1: b"", 7: b'{"n": "one", "name": "a"}', 19: b"[]"}
    with headrace.connect(headrace_server.url) as client:
        with client.producer(stream, topic) as producer:
            for number in range(20):
                producer.send(wrong.get(number, b'{"n": %d, "name": "a"}' % number))
        fitting = [number for number in range(20) if number not in wrong]
        skipping = client.scan(stream, topic, columns=["offset"], decode=form, on_error="skip")
        assert skipping.table().select(["offset", "n"]).to_pydict() == {"offset": fitting, "n": fitting}
        assert skipping.misfits.count == len(wrong)
        assert str(skipping.misfits.first).endswith(
            f"[offset 0 of partition 0 of topic '{topic}' in stream '{stream}']"
        )
        assert skipping.lazy().collect()["n"].to_list() == fitting
        empty = client.scan(stream, topic, columns=["offset"], decode=form, on_error="null")
        expected = [None if number in wrong else number for number in range(20)]
        assert empty.table()["n"].to_pylist() == expected
        assert empty.table()["offset"].to_pylist() == list(range(20))
        large = client.scan(stream, topic, decode=form, on_error="null", where=pc.field("n") > 10)
        assert large.table()["n"].to_pylist() == [number for number in fitting if number > 10]
    async with headrace.aio.connect(headrace_server.url) as client:
        scan = client.scan(stream, topic, decode=form, on_error="skip")
        assert (await scan.table())["n"].to_pylist() == fitting
        assert (await scan.lazy().collect_async())["n"].to_list() == fitting
        assert scan.misfits.count == 2 * len(wrong)


@pytest.mark.parametrize("form", [Struct, Model])
def test_a_number_that_no_column_can_have_is_named(form: object) -> None:
    (decode, _) = decoder(form)
    with pytest.raises(headrace.InvalidArgument, match="a payload does not fit"):
        decode(pa.array([b'{"n": %d, "name": "a"}' % 2**70], pa.binary()))
