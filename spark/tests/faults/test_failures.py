"""SPK-1: servers crash and topics lose messages during queries: the right result, or a precise error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from place import SMALL_SEGMENTS, Place
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from queries import Seen, all_of, run_once, running, stream, wait_for
from tests.compatibility.protocol.raw import RawConnection

from headrace_core import encode_delete_segments, encode_purge_topic

LOST = "DataLossError"


@pytest.fixture(scope="module")
def server_settings() -> Mapping[str, str]:
    return SMALL_SEGMENTS


def test_a_server_that_is_killed_under_a_query(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 2000)
    seen = Seen()
    frame = stream(spark, place, subscribe="a", startingOffsets="earliest", maxOffsetsPerTrigger="500", retry_max="40")
    with running(frame, seen, tmp_path / "cp") as query:
        sent = 2000
        for kills in range(1, 3):
            wait_for(lambda kills=kills: len(seen.sizes) >= 2 * kills, query)
            place.server.restart(kill=True)
            with_new = place.connected()
            with_new.send(
                place.stream, "a", [f"0:{number}".encode() for number in range(sent, sent + 500)], partition=0
            )
            sent += 500
        wait_for(lambda sent=sent: sum(seen.sizes) == sent, query)
    assert seen.rows == all_of(0, range(sent))


def test_a_server_that_is_killed_under_a_batch(spark: SparkSession, place: Place) -> None:
    place.topic("a", 0)
    for begin in range(0, 100_000, 10_000):
        place.send("a", 0, range(begin, begin + 10_000))
    frame = (
        spark.read.format("headrace")
        .options(**place.options(subscribe="a", minPartitions="8", fetchBytes="32k", batchRows="500", retry_max="40"))
        .load()
    )
    assert frame.rdd.getNumPartitions() == 8
    place.server.kill()
    place.server.start()
    # The plan is older than the server process: its tickets are invalid, and tasks request new ones.
    assert frame.select("offset").distinct().count() == 100_000


def test_a_topic_that_was_deleted(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 10)
    place.topic("b", 10)
    seen = Seen()
    run_once(stream(spark, place, subscribe="a,b", startingOffsets="earliest"), seen, tmp_path / "cp")
    place.client.delete_topic(place.stream, "a")
    with pytest.raises(StreamingQueryException, match=LOST):
        run_once(stream(spark, place, subscribe="a,b"), seen, tmp_path / "cp")
    place.send("b", 0, range(10, 12))
    run_once(stream(spark, place, subscribe="a,b", failOnDataLoss="false"), seen, tmp_path / "cp")
    assert sum(seen.sizes) == 22


@pytest.mark.parametrize("is_purged", [False, True])
def test_a_topic_that_begins_anew(spark: SparkSession, place: Place, tmp_path: Path, is_purged: bool) -> None:
    place.topic("a", 10)
    seen = Seen()
    run_once(stream(spark, place, subscribe="a", startingOffsets="earliest"), seen, tmp_path / "cp")
    if is_purged:
        with RawConnection.as_root(place.server.address) as connection:
            connection.ok(*encode_purge_topic(stream=place.stream, topic="a"))
        place.send("a", 0, range(20))
    else:
        place.client.delete_topic(place.stream, "a")
        place.topic("a", 20)
    with pytest.raises(StreamingQueryException, match=f"{LOST}.*purged or created again"):
        run_once(stream(spark, place, subscribe="a"), seen, tmp_path / "cp")
    run_once(stream(spark, place, subscribe="a", failOnDataLoss="false"), seen, tmp_path / "cp")
    # All messages of the new topic, not only those after the old offset.
    assert seen.sizes == [10, 20]
    assert seen.rows == all_of(0, range(10), range(20))


def test_messages_that_are_gone(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 0)
    seen = Seen()
    run_once(stream(spark, place, subscribe="a", startingOffsets="earliest"), seen, tmp_path / "cp")
    for begin in range(0, 3000, 200):
        place.send("a", 0, range(begin, begin + 200))
    with RawConnection.as_root(place.server.address) as connection:
        connection.ok(*encode_delete_segments(stream=place.stream, topic="a", partition=0, segments_count=1))
    with pytest.raises(StreamingQueryException, match=f"{LOST}.*offsets 0 to 3000: there are those from"):
        run_once(stream(spark, place, subscribe="a"), seen, tmp_path / "cp")
    run_once(stream(spark, place, subscribe="a", failOnDataLoss="false"), seen, tmp_path / "cp")
    first = min(number for _, number in seen.rows)
    assert 0 < first < 3000
    assert seen.rows == all_of(0, range(first, 3000))
