"""SPK-2: rows into topics, on a real Spark and a real server."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from place import Place
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as column
from queries import WAIT_SECONDS, stream

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.parsing import option_names
from pyspark_headrace.options.writing import WriteOptions, write_options

ROOT = Path(__file__).resolve().parents[3]
LEAST = {"servers": "a:8094", "stream": "shop", "topic": "orders"}
WRONG = {
    "topic": [""],
    "guarantee": ["idempotent", "sometimes"],
    "transactionalId": ["", "x" * 256, "pyspark_headrace.batch-7"],
    "onCheckpointReset": ["skip"],
    "stageLifetime": ["999ms", "8d"],
    "partitioner": ["random"],
    "includeHeaders": ["yes"],
    "createTopic": ["1"],
    "partitions": ["0", "1001"],
    "retention": ["999ms", "for ever"],
    "batchBytes": ["1", "9m"],
    "maxInFlight": ["0", "101"],
    "appendTimeoutMs": ["0"],
}


def save(frame: DataFrame, place: Place, **options: str) -> None:
    frame.write.format("headrace").mode("append").options(**place.options(**options)).save()


def stored(spark: SparkSession, place: Place, topic: str = "out", columns: str = "partition,offset,key,value") -> list:
    frame = spark.read.format("headrace").options(**place.options(subscribe=topic, columns=columns)).load()
    return frame.collect()


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in WRONG.items() for text in texts])
def test_a_wrong_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(OptionError, match=rf"option {re.escape(name)}\b"):
        write_options(LEAST | {"createTopic": "true"} | {name: text}, is_stream=True)


def test_options() -> None:
    with pytest.raises(OptionError, match="unknown option topix: did you mean topic"):
        write_options(LEAST | {"topix": "x"})
    for given in ({"servers": "a:1", "stream": "x"}, LEAST | {"topics": "x,y"}):
        with pytest.raises(OptionError, match="of topic and topics one is required"):
            write_options(given)
    with pytest.raises(OptionError, match="partitions is for createTopic"):
        write_options(LEAST | {"partitions": "3"})
    with pytest.raises(OptionError, match="retention is for createTopic"):
        write_options(LEAST | {"retention": "7d"})
    with pytest.raises(OptionError, match="option onCheckpointReset is for streams, and for batches with"):
        write_options(LEAST | {"guarantee": "exactly-once", "onCheckpointReset": "fail"})
    for name in ("transactionalId", "batchId"):
        with pytest.raises(OptionError, match="transactionalId and batchId belong together"):
            write_options(LEAST | {"guarantee": "exactly-once", name: "1"})
    with pytest.raises(OptionError, match="option batchId is for batches"):
        write_options(LEAST | {"batchId": "1"}, is_stream=True)
    with pytest.raises(OptionError, match="option stageLifetime is for guarantee = exactly-once"):
        write_options(LEAST | {"stageLifetime": "1h"})
    with pytest.raises(OptionError, match="option onCheckpointReset is for guarantee = exactly-once"):
        write_options(LEAST | {"GUARANTEE": "at-least-once", "onCheckpointReset": "fail"}, is_stream=True)
    assert write_options(LEAST, is_stream=True).is_exact
    assert not write_options(LEAST).is_exact
    # Spark adds these options (pitfall 5.11).
    assert write_options(LEAST | {"checkpointlocation": "x", "queryname": "y"}).topic == "orders"
    document = (ROOT / "docs/spark.md").read_text(encoding="utf-8").partition("## Options of writing")[2]
    named = set(re.findall(r"`([\w.]+)`", document))
    assert set(WRONG) <= named
    assert set(option_names(WriteOptions)) - set(WRONG) <= set(
        re.findall(r"`([\w.]+)`", (ROOT / "docs/spark.md").read_text())
    )


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


def test_a_stream_into_a_topic(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 500, 500)
    place.topic("out", 0, 0)
    frame = stream(spark, place, subscribe="a", startingOffsets="earliest", maxOffsetsPerTrigger="400")
    doubled = frame.select(column.concat(frame["value"], frame["value"]).alias("value"))
    query = (
        doubled.writeStream.format("headrace")
        .options(**place.options(topic="out", guarantee="at-least-once"))
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_SECONDS))
    assert query.exception() is None
    expected = Counter(f"{part}:{number}".encode() * 2 for part in range(2) for number in range(500))
    assert Counter(bytes(row.value) for row in stored(spark, place)) == expected
