"""SPK-1, SPK-2: pitfalls of this Spark version that no other test of this directory covers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from place import Place
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader

from pyspark_headrace.columns.schema import COLUMNS
from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.connection import ConnectionOptions
from pyspark_headrace.options.parsing import option_names
from pyspark_headrace.options.writing import write_options
from pyspark_headrace.read.batch_reader import BatchReader


@contextmanager
def configured(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def test_nothing_is_pushed_down(spark: SparkSession, place: Place) -> None:
    """Check pitfall 5.1: filters pushed down by one query affect others with the same plan. Not even an option enables
    it.
    """
    assert BatchReader.pushFilters is DataSourceReader.pushFilters
    place.topic("a", 10)
    frame = spark.read.format("headrace").options(**place.options(subscribe="a")).load()
    with configured(spark, "spark.sql.python.filterPushdown.enabled", "true"):
        assert [frame.filter(text).count() for text in ("offset >= 5", "offset < 3", "true")] == [5, 3, 10]


def test_batches_of_writers_are_of_any_layout(spark: SparkSession, place: Place) -> None:
    """Check pitfall 5.5: writers get offsets of 32 or 64 bits; readers must yield exactly the declared layout."""
    place.topic("a", 0)
    place.topic("out", 0)
    headers = [(("string", b"colour"), ("string", b"red"))]
    place.send_with("a", 7, b"value", headers, 1_700_000_000_000_000)
    place.client.send(place.stream, "a", [b"keyed"] * 5, key=b"k")

    def load(topic: str) -> DataFrame:
        columns = ",".join(name for name in COLUMNS if name not in {"topic", "offset", "timestamp"})
        return spark.read.format("headrace").options(**place.options(subscribe=topic, columns=columns)).load()

    with configured(spark, "spark.sql.execution.arrow.useLargeVarTypes", "true"):
        frame = load("a")
        found = frame.collect()
        writer = frame.repartition(2).write.format("headrace").mode("append")
        writer.options(**place.options(topic="out", includeHeaders="true")).save()
    assert [bytes(row.value) for row in found] == [b"value", *[b"keyed"] * 5]
    assert [(header.key, bytes(header.value)) for header in found[0].headers] == [("colour", b"red")]
    for other in (load("a"), load("out")):
        assert sorted(map(str, other.collect())) == sorted(map(str, found))


WRONG = {
    "servers": "a",
    "tokenFile": "",
    "tokenEnv": "",
    "username": "",
    "passwordFile": "",
    "passwordEnv": "",
    "tls.enabled": "yes",
    "tls.nodes": "1",
    "tls.ca": "",
    "tls.certificate": "",
    "tls.key": "",
    "tls.serverName": "",
    "retry.max": "-1",
    "retry.intervalMs": "0",
    "ticketLifetime": "10ms",
}


@pytest.mark.parametrize("name", option_names(ConnectionOptions))
@pytest.mark.parametrize("is_stream", [True, False])
def test_options_about_servers_are_the_same_for_writing(name: str, is_stream: bool) -> None:
    with pytest.raises(OptionError, match=rf"option {name}: "):
        write_options({"servers": "a:1", "stream": "s", "topic": "t"} | {name: WRONG[name]}, is_stream=is_stream)
