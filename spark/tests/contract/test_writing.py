"""SPK-2: rows into topics, on each engine and a real server."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from place import Place
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession


def save(frame: DataFrame, place: Place, **options: str) -> None:
    frame.write.format("headrace").mode("append").options(**place.options(**options)).save()


def stored(spark: SparkSession, place: Place, topic: str = "out", columns: str = "partition,offset,key,value") -> list:
    frame = spark.read.format("headrace").options(**place.options(subscribe=topic, columns=columns)).load()
    return frame.collect()


def test_rows_arrive_once_by_key(spark: SparkSession, place: Place) -> None:
    place.topic("out", 0, 0, 0)
    frame = spark.range(0, 5000, 1, 3).selectExpr(
        "CAST(id % 50 AS STRING) AS key", "encode(CAST(id AS STRING), 'utf-8') AS value"
    )
    save(frame, place, topic="out", batchBytes="8k")
    rows = stored(spark, place)
    assert Counter(int(bytes(row.value)) for row in rows) == Counter(range(5000))
    assert all(int(bytes(row.value)) % 50 == int(bytes(row.key)) for row in rows)
    # A key has a single partition, the one that the server would choose.
    where = {bytes(row.key): row.partition for row in rows}
    assert len({(bytes(row.key), row.partition) for row in rows}) == 50
    assert len(set(where.values())) == 3
    place.topic("by-server", 0, 0, 0)
    for key in where:
        place.client.send(place.stream, "by-server", [key], key=key)
    assert {bytes(row.value): row.partition for row in stored(spark, place, "by-server")} == where


def test_rows_without_a_key_take_turns(spark: SparkSession, place: Place) -> None:
    place.topic("out", 0, 0)
    save(spark.range(2000).selectExpr("CAST(id AS STRING) AS value"), place, topic="out", batchBytes="2k")
    rows = stored(spark, place)
    assert Counter(int(bytes(row.value)) for row in rows) == Counter(range(2000))
    assert min(Counter(row.partition for row in rows).values()) > 500


def test_everything_that_a_row_can_have(spark: SparkSession, place: Place) -> None:
    place.topic("out", 0, 0)
    when = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    frame = spark.createDataFrame(
        [
            (b"one", b"k", bytes(range(16)), when, [("a", b"1"), ("b", b"2")], 1),
            (b"two", None, None, None, [], 1),
            (b"three", None, None, None, None, 0),
        ],
        "value BINARY, key BINARY, id BINARY, origin_timestamp TIMESTAMP, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT",
    )
    save(frame.coalesce(1), place, topic="out", includeHeaders="true", partitioner="column")
    found = {
        bytes(row.value): row
        for row in stored(spark, place, columns="partition,offset,id,key,value,origin_timestamp,headers")
    }
    one, two, three = found[b"one"], found[b"two"], found[b"three"]
    assert (one.partition, one.offset, two.partition, two.offset, three.partition) == (1, 0, 1, 1, 0)
    assert (bytes(one.id), bytes(one.key), one.origin_timestamp.replace(tzinfo=UTC)) == (bytes(range(16)), b"k", when)
    assert [(header.key, bytes(header.value)) for header in one.headers] == [("a", b"1"), ("b", b"2")]
    assert (two.key, two.headers, three.headers) == (None, [], [])
    assert bytes(two.id) != bytes(16)


def test_a_topic_into_another(spark: SparkSession, place: Place) -> None:
    """Check that server-assigned columns (offset, timestamp) are ignored."""
    place.topic("a", 300)
    read = spark.read.format("headrace").options(**place.options(subscribe="a")).load()
    save(read, place, topic="out", createTopic="true", partitions="2", retention="7d")
    assert Counter(bytes(row.value) for row in stored(spark, place)) == Counter(
        f"0:{number}".encode() for number in range(300)
    )
    made = place.client.topic(place.stream, "out")
    assert len(made.partitions) == 2
    assert made.message_expiry_micros == 7 * 86_400 * 1_000_000


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ("SELECT 1 AS value", {}, "column value is int; it has to be binary or string"),
        ("SELECT 'a' AS key", {}, "no column value"),
        ("SELECT 'a' AS value, 1 AS colour", {}, "column colour is not a part of a message"),
        ("SELECT 'a' AS value", {"partitioner": "column"}, "needs a column partition"),
        ("SELECT 'a' AS value", {"includeHeaders": "true"}, "needs a column headers"),
        ("SELECT 'a' AS value", {"topic": "missing"}, "describing topics of"),
        ("SELECT '' AS value", {}, "RowRefusedError.*column value"),
        ("SELECT CAST(NULL AS STRING) AS value", {}, "RowRefusedError.*column value"),
        ("SELECT 'a' AS value, 7 AS partition", {"partitioner": "column"}, "RowRefusedError.*column partition"),
    ],
)
def test_rows_that_cannot_be_messages(
    spark: SparkSession, place: Place, rows: str, options: dict[str, str], said: str
) -> None:
    place.topic("out", 0)
    with pytest.raises(PySparkException, match=f"(?s){said}"):
        save(spark.sql(rows), place, **{"topic": "out"} | options)
    assert stored(spark, place) == []


def test_modes(spark: SparkSession, place: Place) -> None:
    place.topic("out", 0)
    frame = spark.sql("SELECT 'a' AS value")
    writer = frame.write.format("headrace").options(**place.options(topic="out"))
    with pytest.raises(PySparkException, match="mode overwrite is not possible"):
        writer.mode("overwrite").save()
    with pytest.raises(PySparkException):
        writer.mode("errorifexists").save()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_each_row_of_several_tasks_arrives_once(spark: SparkSession, place: Place, guarantee: str) -> None:
    place.topic("out", 0, 0)
    frame = spark.range(0, 300).repartition(3).selectExpr("CAST(id AS STRING) AS value")
    save(frame, place, topic="out", guarantee=guarantee)
    save(frame, place, topic="out", guarantee=guarantee)
    assert Counter(int(bytes(row.value)) for row in stored(spark, place)) == dict.fromkeys(range(300), 2)
