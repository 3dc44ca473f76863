"""SPK-1: topics change during a query: the remaining messages, or an error that names the missing ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from gateway_proxy import GatewayProxy
from outputs import payloads
from place import SMALL_SEGMENTS, Place
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from queries import WAIT_SECONDS, Seen, all_of, running, stream, wait_for
from tests.compatibility.protocol.raw import RawConnection, eventually

from headrace_core import encode_delete_segments, encode_purge_topic

LOST = "DataLossError"


@pytest.fixture(scope="module")
def server_settings() -> Mapping[str, str]:
    return SMALL_SEGMENTS


class Held(Seen):
    """Sink that blocks in its first micro-batch until released."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = threading.Event()
        self.may_go = threading.Event()

    def take(self, frame: DataFrame, batch_id: int) -> None:
        super().take(frame, batch_id)
        self.is_held.set()
        assert self.may_go.wait(WAIT_SECONDS)


def expire(place: Place) -> None:
    with RawConnection.as_root(place.server.address) as connection:
        connection.ok(*encode_delete_segments(stream=place.stream, topic="a", partition=0, segments_count=1))


def purge(place: Place) -> None:
    with RawConnection.as_root(place.server.address) as connection:
        connection.ok(*encode_purge_topic(stream=place.stream, topic="a"))


def make_anew(place: Place) -> None:
    place.client.delete_topic(place.stream, "a")
    place.client.create_topic(place.stream, "a", 1)


@pytest.mark.long
@pytest.mark.parametrize("change", [expire, purge, make_anew])
def test_under_a_query_that_is_behind(spark: SparkSession, place: Place, tmp_path: Path, change: object) -> None:
    """Check the loss of unread messages during the first micro-batch."""
    place.topic("a", 0)
    for begin in range(0, 3000, 200):
        place.send("a", 0, range(begin, begin + 200))
    seen = Held()
    given = {"subscribe": "a", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    with running(stream(spark, place, **given), seen, tmp_path / "cp") as query:
        assert seen.is_held.wait(WAIT_SECONDS), query.lastProgress
        assert callable(change)
        change(place)
        if change is not expire:
            place.send("a", 0, range(150))
        seen.may_go.set()
        with pytest.raises(StreamingQueryException, match=LOST):
            query.awaitTermination(int(WAIT_SECONDS))
    assert seen.rows == all_of(0, range(100))
    # With `failOnDataLoss` = false the query continues with exactly the remaining messages.
    frame = stream(spark, place, **given | {"maxOffsetsPerTrigger": "2000", "failOnDataLoss": "false"})
    with running(frame, seen, tmp_path / "cp") as query:
        if change is expire:
            wait_for(lambda: max(number for _, number in seen.rows) == 2999, query)
            first = min(number for _, number in seen.rows if number >= 100)
            assert 100 < first < 3000
            assert seen.rows == all_of(0, range(100), range(first, 3000))
        else:
            wait_for(lambda: sum(seen.sizes) == 250, query)
            assert seen.rows == all_of(0, range(100), range(150))


def test_the_topic_that_is_written_to(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Check a target topic recreated between stage and commit: the batch fails, and its repetition is written
    completely once.
    """
    place.topic("a", 100)
    place.topic("out", 0, 0)

    def replaced() -> None:
        place.client.delete_topic(place.stream, "out")
        place.topic("out", 0, 0)

    with GatewayProxy(place.server.grpc_address) as gateway:
        gateway.before["CommitTransaction"] = replaced
        frame = stream(spark, place, subscribe="a", startingOffsets="earliest").select("value")
        writer = frame.writeStream.format("headrace").options(**place.options(topic="out", servers=gateway.address))
        writer = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
        with pytest.raises(StreamingQueryException, match="ServerRefusedError: committing batch 0 of"):
            writer.start().awaitTermination(int(WAIT_SECONDS))
        assert payloads(place).total() == 0
        gateway.before.clear()
        assert writer.start().awaitTermination(int(WAIT_SECONDS))
    expected = {f"0:{number}".encode(): 1 for number in range(100)}
    eventually("everything that is committed can be read", lambda: payloads(place).total() == 100)
    assert payloads(place) == expected
