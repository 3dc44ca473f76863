"""SPK-1: topics as batches, what of it concerns Spark alone: `contract` has the rest."""

from __future__ import annotations

from place import Place
from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, place: Place, **options: str) -> DataFrame:
    return spark.read.format("headrace").options(**place.options(**options)).load()


def test_a_range_that_is_empty_is_read_by_one_task(spark: SparkSession, place: Place) -> None:
    """Check an empty range. For an empty list Spark makes up a partition that is None (pitfall 5.6)."""
    place.topic("a", 0, 0)
    frame = load(spark, place, subscribe="a")
    assert frame.collect() == []
    assert frame.rdd.getNumPartitions() == 1


def test_splits(spark: SparkSession, place: Place) -> None:
    place.topic("a", 1000, 10)
    by_four = load(spark, place, subscribe="a", minPartitions="4")
    assert by_four.rdd.getNumPartitions() == 4
    assert by_four.select("partition", "offset").distinct().count() == 1010
    assert load(spark, place, subscribe="a", maxRecordsPerPartition="300").rdd.getNumPartitions() == 5
    small = load(spark, place, subscribe="a", maxBytesPerPartition="20k")
    assert small.rdd.getNumPartitions() > 3
    assert small.select("partition", "offset").distinct().count() == 1010


def test_a_frame_reads_the_same_each_time(spark: SparkSession, place: Place) -> None:
    place.topic("a", 10)
    frame = load(spark, place, subscribe="a")
    assert frame.count() == 10
    place.send("a", 0, range(10, 15))
    assert frame.count() == 10
    assert load(spark, place, subscribe="a").count() == 15
