"""SPK-1: topics as batches, on each engine and a real server."""

from __future__ import annotations

import json
import time
from collections import Counter
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest
from place import Place
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as column

from pyspark_headrace import read_topic
from pyspark_headrace.columns.schema import COLUMNS
from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.read.reading import read_range
from pyspark_headrace.read.splits import Split


def load(spark: SparkSession, place: Place, **options: str) -> DataFrame:
    return spark.read.format("headrace").options(**place.options(**options)).load()


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def test_every_message_once_in_order(spark: SparkSession, place: Place) -> None:
    place.topic("orders", 20_000, 0, 30)
    frame = load(spark, place, subscribe="orders", batchRows="700")
    rows = frame.collect()
    assert frame.columns == ["topic", "partition", "offset", "timestamp", "key", "value"]
    for number, count in enumerate((20_000, 0, 30)):
        of_it = [row for row in rows if row.partition == number]
        assert [row.offset for row in of_it] == list(range(count))
        assert [bytes(row.value).decode() for row in of_it] == [f"{number}:{at}" for at in range(count)]
        assert {row.topic for row in of_it} <= {"orders"}


def test_everything_that_is_known_of_a_message(spark: SparkSession, place: Place) -> None:
    place.topic("full", 0)
    before = datetime.now(UTC)
    place.send_with(
        "full",
        # Conversion of UUIDs to numbers as in Iggy clients (0.8).
        int.from_bytes(UUID("00112233-4455-6677-8899-aabbccddeeff").bytes, "little"),
        b"\x00\xffvalue",
        [(("string", b"colour"), ("string", b"red")), (("string", b"headrace.key"), ("raw", b"k1"))],
        1_700_000_000_123_456,
    )
    place.send("full", 0, range(1))
    first, second = load(spark, place, subscribe="full", columns=",".join(COLUMNS)).collect()
    assert (first.stream, first.topic, first.partition, first.offset) == (place.stream, "full", 0, 0)
    assert bytes(first.id) == UUID("00112233-4455-6677-8899-aabbccddeeff").bytes
    assert (bytes(first.key), bytes(first.value)) == (b"k1", b"\x00\xffvalue")
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("colour", b"red")]
    assert first.origin_timestamp.replace(tzinfo=UTC) == datetime.fromtimestamp(1_700_000_000, UTC).replace(
        microsecond=123_456
    )
    assert before <= first.timestamp.replace(tzinfo=UTC) <= datetime.now(UTC)
    assert (second.key, second.headers, second.offset) == (None, [], 1)


@pytest.mark.parametrize(
    "wanted",
    [
        "value BINARY, offset BIGINT",
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, id BINARY, partition INT NOT NULL",
        "offset BIGINT NOT NULL",
        ", ".join(f"{name} {kind}" for name, kind in reversed(COLUMNS.items())),
    ],
)
def test_schemas_are_subsets_in_any_order(spark: SparkSession, place: Place, wanted: str) -> None:
    place.topic("orders", 50)
    frame = spark.read.format("headrace").schema(wanted).options(**place.options(subscribe="orders")).load()
    whole = load(spark, place, subscribe="orders", columns=",".join(COLUMNS)).select(frame.columns)
    assert sorted(map(str, frame.collect())) == sorted(map(str, whole.collect()))
    assert frame.count() == 50


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("value STRING", "no column value string"),
        ("payload BINARY", "no column payload binary"),
        ("key BINARY NOT NULL", "key is NULL where a message has none"),
        ("offset INT", "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"),
    ],
)
def test_other_schemas_are_refused(spark: SparkSession, place: Place, wanted: str, said: str) -> None:
    place.topic("orders", 1)
    with pytest.raises(PySparkException, match=said):
        spark.read.format("headrace").schema(wanted).options(**place.options(subscribe="orders")).load().count()


def test_headers_and_columns(spark: SparkSession, place: Place) -> None:
    place.topic("orders", 1)
    assert load(spark, place, subscribe="orders", includeHeaders="true").columns[-1] == "headers"
    assert load(spark, place, subscribe="orders", columns="value,offset").columns == ["value", "offset"]
    with pytest.raises(PySparkException, match="there is no column payload; there are stream, topic"):
        load(spark, place, subscribe="orders", columns="payload").schema  # noqa: B018 - the schema is asked for


def test_which_topics(spark: SparkSession, place: Place) -> None:
    place.topic("a.1", 2, 2)
    place.topic("a.2", 3)
    place.topic("b", 5)
    assert load(spark, place, subscribe="a.1,b").count() == 9
    assert load(spark, place, subscribePattern="a\\..*").count() == 7
    assert load(spark, place, subscribePattern="nothing").count() == 0
    assert values(load(spark, place, assign='{"a.1": [1], "b": [0]}')) == sorted(
        ["1:0", "1:1"] + [f"0:{at}" for at in range(5)]
    )


def test_what_is_not_there_is_refused(spark: SparkSession, place: Place) -> None:
    place.topic("a", 1)
    with pytest.raises(PySparkException, match="ServerRefusedError"):
        load(spark, place, subscribe="a,missing").count()
    with pytest.raises(PySparkException, match="assign names topic a, partition 7"):
        load(spark, place, assign='{"a": [7]}').count()
    with pytest.raises(PySparkException, match="startingOffsets names topic b, partition 0"):
        load(spark, place, subscribe="a", startingOffsets='{"b": {"0": 0}}').count()
    with pytest.raises(PySparkException, match="ends at 1, there is no 5 yet"):
        load(spark, place, subscribe="a", endingOffsets='{"a": {"0": 5}}').count()
    with pytest.raises(PySparkException, match="a range from 1 to 0 cannot be"):
        load(spark, place, subscribe="a", startingOffsets='{"a": {"0": 1}}', endingOffsets='{"a": {"0": 0}}').count()


def test_wrong_credentials(spark: SparkSession, place: Place, tmp_path: object) -> None:
    place.topic("a", 1)
    options = place.options(subscribe="a") | {"passwordEnv": "NOT_SET_ANYWHERE"}
    with pytest.raises(PySparkException, match="variable NOT_SET_ANYWHERE is not set"):
        spark.read.format("headrace").options(**options).load().count()
    options = place.options(subscribe="a") | {"username": "nobody"}
    with pytest.raises(PySparkException, match="UNAUTHENTICATED"):
        spark.read.format("headrace").options(**options).load().count()


def test_ranges(spark: SparkSession, place: Place) -> None:
    place.topic("a", 10, 10)
    found = load(
        spark,
        place,
        subscribe="a",
        startingOffsets='{"a": {"0": 3, "1": -2}}',
        endingOffsets='{"a": {"0": 5, "1": -1}}',
    )
    assert values(found) == sorted(["0:3", "0:4"] + [f"1:{at}" for at in range(10)])
    # Partitions that are not named are read completely.
    assert load(spark, place, subscribe="a", startingOffsets='{"a": {"0": 9}}').count() == 11


def test_ranges_of_time(spark: SparkSession, place: Place) -> None:
    place.topic("a", 5, 5)
    time.sleep(0.01)
    middle = datetime.now(UTC)
    time.sleep(0.01)
    place.send("a", 0, range(5, 9))
    late = [f"0:{at}" for at in range(5, 9)]
    assert values(read_topic(spark, stream=place.stream, topic="a", since=middle, **credentials(place))) == late
    early = read_topic(spark, stream=place.stream, topic="a", until=middle, columns=["value"], **credentials(place))
    assert early.count() == 10
    only = read_topic(spark, stream=place.stream, topic="a", until=middle, partitions=[1], **credentials(place))
    assert {row.partition for row in only.collect()} == {1}
    millis = str(int(middle.timestamp() * 1000))
    with pytest.raises(PySparkException, match="topic a, partition 1 has no message at or after"):
        load(spark, place, subscribe="a", startingTimestamp=millis).count()
    by_partition = json.dumps({"a": {"0": int(millis)}})
    assert (
        load(spark, place, subscribe="a", startingOffsetsByTimestamp=by_partition, startingTimestamp="0").count() == 9
    )
    assert (
        load(
            spark,
            place,
            subscribe="a",
            startingTimestamp=millis,
            startingOffsetsByTimestampStrategy="latest",
            endingOffsets='{"a": {"0": 8}}',
        ).count()
        == 3
    )


def credentials(place: Place) -> dict[str, str]:
    options = place.options()
    return {name: options[name] for name in ("servers", "username", "passwordEnv")}


def test_ranges_instead_of_messages(spark: SparkSession, place: Place) -> None:
    place.topic("a", 1000, 10)
    frame = load(spark, place, subscribe="a", emit="ranges", maxRecordsPerPartition="400")
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.start))
    assert [(row.stream, row.topic, row.partition, row.start, row.end) for row in rows] == [
        (place.stream, "a", 0, 0, 333),
        (place.stream, "a", 0, 333, 666),
        (place.stream, "a", 0, 666, 1000),
        (place.stream, "a", 1, 0, 10),
    ]
    assert all(row.bytes > 64 * (row.end - row.start) for row in rows)
    assert len({row.incarnation for row in rows}) == 1
    assert "split" not in frame.columns


def test_a_range_that_a_task_reads_itself(spark: SparkSession, place: Place) -> None:
    """Check ranges as used by jobs that write files without a Spark row per message."""
    place.topic("a", 1000, 10)
    options = place.options(subscribe="a", emit="ranges", maxRecordsPerPartition="400")
    rows = spark.read.format("headrace").options(**options).schema("split BINARY").load().collect()
    splits = sorted((Split.from_bytes(bytes(row.split)) for row in rows), key=lambda split: split.start)
    columns = pa.schema([pa.field("partition", pa.int32()), pa.field("value", pa.binary())])
    found = [
        row
        for split in splits
        for batch in read_range(split, batch_options(place.options(subscribe="a")), columns)
        for row in batch.to_pylist()
    ]
    assert Counter(row["value"] for row in found) == Counter(
        f"{part}:{at}".encode() for part, count in enumerate((1000, 10)) for at in range(count)
    )
    assert all("ticket" not in repr(split) and split.ticket for split in splits)


def test_filters_of_one_query_are_not_those_of_another(spark: SparkSession, place: Place) -> None:
    """Check pitfall 5.1: with `pushFilters` the third and the fourth result would be 5."""
    place.topic("a", 10)
    frame = load(spark, place, subscribe="a")
    assert frame.filter("offset >= 5").count() == 5
    assert frame.count() == 10
    assert frame.filter("offset < 3").union(frame.filter("offset >= 5")).count() == 8
    assert frame.filter("offset < 3").filter("value = '0:1'").count() == 1


def test_who_stops_early_leaves_nothing_behind(spark: SparkSession, place: Place) -> None:
    """Check pitfall 5.9: `limit` closes the generator; the call ends with it, and the next query works."""
    place.topic("a", 50_000)
    frame = load(spark, place, subscribe="a", batchRows="100", fetchBytes="4k")
    for _ in range(3):
        assert [row.offset for row in frame.limit(3).collect()] == [0, 1, 2]
    assert frame.agg(column.sum("offset")).first()[0] == 50_000 * 49_999 // 2


def test_an_unknown_option_ends_the_query(spark: SparkSession, place: Place) -> None:
    with pytest.raises(PySparkException, match="unknown option subscribes: did you mean subscribe"):
        load(spark, place, subscribes="a").schema  # noqa: B018 - the schema is asked for
