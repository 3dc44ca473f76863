"""SPK-1: topics as streams, on a real Spark and a real server."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from place import Place
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from queries import WAIT_SECONDS, Seen, all_of, run_once, running, stream, wait_for

from pyspark_headrace import LagListener


def logged(checkpoint: Path, kind: str, batch: int) -> str:
    return (checkpoint / kind / str(batch)).read_text(encoding="utf-8")


def offsets_of(checkpoint: Path, batch: int) -> dict[str, dict[str, int]]:
    found = json.loads(logged(checkpoint, "offsets", batch).splitlines()[-1])
    return {title.rpartition("/")[2]: topic["p"] for title, topic in found["t"].items()}


def test_what_is_there_and_what_comes(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 100, 10)
    seen = Seen()
    with running(stream(spark, place, subscribe="a", startingOffsets="earliest"), seen, tmp_path / "cp") as query:
        wait_for(lambda: sum(seen.sizes) == 110, query)
        place.send("a", 1, range(10, 15))
        wait_for(lambda: sum(seen.sizes) == 115, query)
    assert seen.rows == all_of(0, range(100)) + all_of(1, range(15))
    # Resume from the checkpoint.
    place.send("a", 0, range(100, 103))
    run_once(stream(spark, place, subscribe="a", startingOffsets="earliest"), seen, tmp_path / "cp")
    assert seen.rows == all_of(0, range(103)) + all_of(1, range(15))


@pytest.mark.long
def test_available_now_with_limits(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 90, 10, 0)
    seen = Seen()
    frame = stream(
        spark,
        place,
        subscribe="a",
        startingOffsets="earliest",
        maxOffsetsPerTrigger="40",
        # Waiting for more messages would never end, so this option is ignored here.
        minOffsetsPerTrigger="35",
    )
    run_once(frame, seen, tmp_path / "cp")
    assert seen.sizes == [40, 40, 20]
    assert seen.rows == all_of(0, range(90)) + all_of(1, range(10))
    assert offsets_of(tmp_path / "cp", 0) == {"a": {"0": 36, "1": 4, "2": 0}}
    # No new messages: no new batch.
    run_once(frame, seen, tmp_path / "cp")
    assert sorted(path.name for path in (tmp_path / "cp/offsets").glob("[0-9]*")) == ["0", "1", "2"]


@pytest.mark.long
def test_limits_in_bytes(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 1000)
    seen = Seen()
    frame = stream(spark, place, subscribe="a", startingOffsets="earliest", maxBytesPerTrigger="20k")
    run_once(frame, seen, tmp_path / "cp")
    assert seen.rows == all_of(0, range(1000))
    # A message has a header of 64 bytes and its payload.
    assert max(seen.sizes) * 67 <= 22_000
    assert len(seen.sizes) <= 6


def test_a_query_waits_for_enough_but_not_for_ever(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 10)
    seen = Seen()
    frame = stream(
        spark,
        place,
        subscribe="a",
        startingOffsets="earliest",
        minOffsetsPerTrigger="20",
        maxTriggerDelay="12s",
    )
    with running(frame, seen, tmp_path / "cp") as query:
        place.send("a", 0, range(10, 20))
        wait_for(lambda: sum(seen.sizes) == 20, query)
        assert seen.sizes == [20]
        began = time.monotonic()
        place.send("a", 0, range(20, 21))
        wait_for(lambda: sum(seen.sizes) == 21, query)
        assert time.monotonic() - began > 1


def test_latest_is_found_once(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Check pitfall 5.2: Spark requests the start offsets twice; resolving "latest" each time loses messages in
    between.
    """
    place.topic("a", 1000)
    seen = Seen()
    with running(stream(spark, place, subscribe="a"), seen, tmp_path / "cp") as query:
        wait_for(lambda: query.lastProgress is not None or bool(query.status["message"]), query)
        sent = 1000
        # A message arrives between any two requests.
        deadline = time.monotonic() + WAIT_SECONDS
        while sum(seen.sizes) < 200 and time.monotonic() < deadline:
            place.send("a", 0, range(sent, sent + 10))
            sent += 10
            time.sleep(0.005)
        wait_for(lambda: max((row[1] for row in seen.rows), default=0) == sent - 1, query)
    first = min(number for _, number in seen.rows)
    assert first >= 1000
    assert seen.rows == all_of(0, range(first, sent))


def test_the_beginning_outlives_a_run(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Check pitfall 5.2: a run without a micro-batch records nothing, so later messages would be left out."""
    place.topic("a", 10)
    seen = Seen()
    frame = stream(spark, place, subscribe="a", readerId="job")
    run_once(frame, seen, tmp_path / "cp")
    place.send("a", 0, range(10, 15))
    run_once(frame, seen, tmp_path / "cp")
    assert seen.rows == all_of(0, range(10, 15))


@pytest.mark.long
def test_each_trigger(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 30)
    seen = Seen()
    frame = stream(spark, place, subscribe="a", startingOffsets="earliest", maxOffsetsPerTrigger="10")
    with running(frame, seen, tmp_path / "cp", processingTime="200 milliseconds") as query:
        wait_for(lambda: seen.sizes == [10, 10, 10], query)
        # Otherwise the next run repeats this micro-batch.
        wait_for((tmp_path / "cp/commits/2").exists, query)
    place.send("a", 0, range(30, 60))
    with running(frame, seen, tmp_path / "cp", once=True) as query:
        assert query.awaitTermination(int(WAIT_SECONDS))
    # `once` ignores the limits.
    assert seen.sizes == [10, 10, 10, 30]
    assert seen.rows == all_of(0, range(60))


@pytest.mark.long
def test_partitions_and_topics_that_come_later(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a.1", 10)
    seen = Seen()
    frame = stream(spark, place, subscribePattern="a\\..", startingOffsets="latest")
    run_once(frame, seen, tmp_path / "cp")
    place.topic("a.2", 5)
    run_once(frame, seen, tmp_path / "cp")
    # From the start of the log: only that is the same in a repetition.
    assert seen.rows == all_of(0, range(5))


@pytest.mark.long
def test_a_batch_is_repeated_as_it_was(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 100)
    seen = Seen()
    frame = stream(spark, place, subscribe="a", startingOffsets="earliest", maxOffsetsPerTrigger="60")
    run_once(frame, seen, tmp_path / "cp")
    before = offsets_of(tmp_path / "cp", 1)
    # Simulates an end of the process before Spark recorded the last batch.
    for left in (tmp_path / "cp/commits").glob("*1*"):
        left.unlink()
    place.send("a", 0, range(100, 200))
    again = Seen()
    run_once(frame, again, tmp_path / "cp")
    assert again.batches[1] == seen.batches[1]
    assert offsets_of(tmp_path / "cp", 1) == before
    assert seen.rows + again.rows - all_of(0, range(60, 100)) == all_of(0, range(200))


def test_a_checkpoint_of_something_else_is_refused(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 10)
    seen = Seen()
    run_once(stream(spark, place, subscribe="a", startingOffsets="earliest"), seen, tmp_path / "cp")
    log = tmp_path / "cp/offsets/0"
    text = log.read_text(encoding="utf-8")
    log.write_text(text.replace(place.stream, "elsewhere"), encoding="utf-8")
    for left in (tmp_path / "cp/offsets").glob(".*"):
        left.unlink()
    shutil.rmtree(tmp_path / "cp/commits")
    with pytest.raises(StreamingQueryException, match="the checkpoint has offsets of elsewhere/a"):
        run_once(stream(spark, place, subscribe="a", startingOffsets="earliest"), seen, tmp_path / "cp")


def test_lag(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 100, 20)
    seen = Seen()
    listener = LagListener()
    spark.streams.addListener(listener)
    try:
        frame = stream(spark, place, subscribe="a", startingOffsets="earliest", maxOffsetsPerTrigger="30")
        with running(frame, seen, tmp_path / "cp", processingTime="1 hour") as query:
            wait_for(lambda: listener.of(query.id) is not None, query)
            lag = listener.of(query.id)
        assert lag is not None
        assert (lag.total, lag.rows, lag.batch_id) == (90, 30, 0)
        assert lag.messages == {(f"{place.stream}/a", 0): 75, (f"{place.stream}/a", 1): 15}
        deadline = time.monotonic() + WAIT_SECONDS
        while listener.all() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert listener.all() == []
    finally:
        spark.streams.removeListener(listener)


def test_ranges_in_a_stream(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 100)
    frame = stream(spark, place, subscribe="a", startingOffsets="earliest", emit="ranges", maxOffsetsPerTrigger="60")
    found: list[tuple[int, int]] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: found.extend((row.start, row.end) for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_SECONDS))
    assert found == [(0, 60), (60, 100)]
