"""SPK-2: rows into topics, on a real Spark and a real server."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from place import Place
from pyspark.sql import SparkSession
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
    rows = spark.read.format("headrace").options(**place.options(subscribe="out")).load().collect()
    assert Counter(bytes(row.value) for row in rows) == expected
