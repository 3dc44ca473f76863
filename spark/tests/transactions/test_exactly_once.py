"""SPK-1, SPK-2: exactly-once writes despite the loss of tasks, drivers, responses, checkpoints and servers."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from gateway_proxy import GatewayProxy
from outputs import payloads, stages_on_disk
from place import Place
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as column
from pyspark.sql.streaming.query import StreamingQuery
from queries import WAIT_SECONDS, stream
from tests.compatibility.protocol.raw import eventually


@pytest.fixture(scope="module")
def server_settings() -> Mapping[str, str]:
    """Every input message is synced to disk before the acknowledgement."""
    return {"DURABILITY": "fsync"}


def failing(
    frame: DataFrame, attempts: int, at: bytes = b"99", switch: Path | None = None, after: Path | None = None
) -> DataFrame:
    """Fail the first attempts of the second task at some of its rows.

    With a switch file, only while the file exists; and only after the file `after` exists.
    """

    def checked(value: bytes) -> bytes:
        context = TaskContext.get()
        is_on = switch is None or switch.exists()
        if value.endswith(at) and context.partitionId() == 1 and context.attemptNumber() < attempts and is_on:
            deadline = time.monotonic() + WAIT_SECONDS
            while after is not None and not after.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            raise RuntimeError("a test has this task fail")
        return value

    return frame.select("key", column.udf(checked, "binary", useArrow=False)("value").alias("value"))


def touched(file: Path, spark: SparkSession) -> None:
    """Create a file when a task of a running stage has ended."""
    tracker = spark.sparkContext.statusTracker()

    def is_one_through() -> bool:
        found = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
        return any(stage is not None and stage.numCompletedTasks > 0 for stage in found)

    eventually("a task is through", is_one_through)
    file.touch()


def begin(frame: DataFrame, place: Place, checkpoint: Path, **options: str) -> StreamingQuery:
    writer = frame.writeStream.format("headrace").options(**place.options(topic="out", batchBytes="1k") | options)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def run(frame: DataFrame, place: Place, checkpoint: Path, **options: str) -> StreamingQuery:
    """Write all available rows, and end."""
    query = begin(frame, place, checkpoint, **options)
    try:
        assert query.awaitTermination(int(WAIT_SECONDS)), "the query does not end"
    finally:
        query.stop()
    return query


def source(spark: SparkSession, place: Place, per_batch: int, **options: str) -> DataFrame:
    given = {"subscribe": "a", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(per_batch)} | options
    return stream(spark, place, **given).select("key", "value")


def numbers(*counts: int) -> Counter[bytes]:
    return Counter(f"{part}:{number}".encode() for part, count in enumerate(counts) for number in range(count))


def settled(place: Place, expected: Counter[bytes], said: str = "") -> None:
    """Return the contents of the topic once no commit is pending."""
    eventually("everything that is committed can be read", lambda: payloads(place).total() >= expected.total())
    assert payloads(place) == expected, said


def forget_last_commit(checkpoint: Path) -> None:
    """Restore the state of a driver that died before recording the end of the last batch."""
    last = max(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda at: int(at.name)
    )
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.long
def test_tasks_that_fail_and_queries_that_stop(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 500, 500)
    place.topic("out", 0, 0, 0)
    frame = failing(source(spark, place, 200), 1, at=b"399")
    run(frame, place, tmp_path / "cp")
    place.send("a", 0, range(500, 800))
    place.send("a", 1, range(500, 800))
    query = begin(frame, place, tmp_path / "cp")
    query.stop()
    assert query.exception() is None
    forget_last_commit(tmp_path / "cp")
    run(frame, place, tmp_path / "cp")
    settled(place, numbers(800, 800))


@pytest.mark.long
@pytest.mark.parametrize("can_ask", [True, False])
def test_a_commit_whose_answer_is_lost(spark: SparkSession, place: Place, tmp_path: Path, can_ask: bool) -> None:
    place.topic("a", 300)
    place.topic("out", 0, 0)
    with GatewayProxy(place.server.grpc_address) as gateway:
        if not can_ask:
            # A writer need not have read permission: in that case the commit itself detects the repetition.
            gateway.refusing.add("GetTransaction")
        frame = source(spark, place, 100)
        # One lost response: the repeated commit gets a response.
        gateway.losing["CommitTransaction"] = 1
        run(frame, place, tmp_path / "cp", servers=gateway.address)
        assert gateway.calls["CommitTransaction"] == 4
        place.send("a", 0, range(300, 400))
        # Permanently lost responses: Spark aborts the batch, which is committed, and repeats it in the next run.
        gateway.losing["CommitTransaction"] = 100
        with pytest.raises(StreamingQueryException, match=r"UnreachableError.*the answer is lost"):
            run(frame, place, tmp_path / "cp", servers=gateway.address, **{"retry.max": "1"})
        assert gateway.calls["AbortTransaction"] == 1
        gateway.losing.clear()
        run(frame, place, tmp_path / "cp", servers=gateway.address)
        assert gateway.calls["CommitTransaction"] == (6 if can_ask else 7)
    settled(place, numbers(400))


def test_a_batch_that_fails_leaves_nothing(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 400, 400)
    place.topic("out", 0, 0)
    switch = tmp_path / "fail"
    switch.touch()
    frame = failing(source(spark, place, 1000), 100, switch=switch)
    with pytest.raises(StreamingQueryException, match="a test has this task fail"):
        run(frame, place, tmp_path / "cp")
    assert payloads(place) == Counter()
    eventually("the stages of the task that was through go", lambda: not stages_on_disk(place))
    switch.unlink()
    run(frame, place, tmp_path / "cp")
    settled(place, numbers(400, 400))


def test_two_drivers_with_one_checkpoint(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Check that each driver repeats batches already committed by the other."""
    place.topic("a", 300)
    place.topic("out", 0, 0)
    one, two = tmp_path / "one", tmp_path / "two"
    frame = source(spark, place, 100)
    run(frame, place, one)
    forget_last_commit(one)
    shutil.copytree(one, two)
    place.send("a", 0, range(300, 500))
    for checkpoint in (two, one):
        run(frame, place, checkpoint)
    place.send("a", 0, range(500, 700))
    for checkpoint in (one, two):
        run(frame, place, checkpoint)
    settled(place, numbers(700))


@pytest.mark.long
def test_a_checkpoint_that_was_deleted(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 200)
    place.topic("out", 0, 0)
    frame = source(spark, place, 100)
    named = {"transactionalId": "copy of a"}
    run(frame, place, tmp_path / "old", **named)
    settled(place, numbers(200))
    place.send("a", 0, range(200, 300))
    # Batches 0 and 1 have the numbers of committed batches of another query, but are not mistaken for them.
    with pytest.raises(StreamingQueryException, match=r"FencedError.*copy of a.*onCheckpointReset"):
        run(frame, place, tmp_path / "new", **named)
    assert payloads(place) == numbers(200)
    run(frame, place, tmp_path / "new", **named, onCheckpointReset="fence")
    settled(place, numbers(200) + numbers(300))
    # A fenced query cannot take the name back.
    with pytest.raises(StreamingQueryException, match="FencedError"):
        run(frame, place, tmp_path / "old", **named, onCheckpointReset="fence")
    place.send("a", 0, range(300, 350))
    run(frame, place, tmp_path / "new", **named)
    settled(place, numbers(200) + numbers(350))


@pytest.mark.long
def test_a_server_that_is_killed_time_and_again(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("a", 1500, 1500)
    place.topic("out", 0, 0, 0)
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    frame = source(spark, place, 400, retry_max="40")
    over = threading.Event()
    kills = 0

    def kill() -> None:
        nonlocal kills
        while kills < 3 and not over.wait(0.02):
            if len(list((tmp_path / "cp" / "commits").glob("[0-9]*"))) > 2 * kills:
                over.wait(moments.uniform(0, 0.6))
                place.server.restart(kill=True)
                kills += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for _ in range(10):
            # A failed run is followed by one that repeats its batch.
            with suppress(StreamingQueryException):
                run(frame, place, tmp_path / "cp", **{"retry.max": "40"})
                break
    finally:
        over.set()
        killer.join()
    assert kills == 3
    settled(place, numbers(1500, 1500), f"seed {seed}")


def test_batches(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    place.topic("out", 0, 0)
    exactly = place.options(topic="out", guarantee="exactly-once", batchBytes="1k")
    frame = spark.range(0, 2000, 1, 2).selectExpr(
        "CAST(NULL AS BINARY) AS key", "CAST(CAST(id AS STRING) AS BINARY) AS value"
    )
    expected = Counter(str(number).encode() for number in range(2000))

    def save(rows: DataFrame, **options: str) -> None:
        rows.write.format("headrace").mode("append").options(**exactly | options).save()

    save(failing(frame, 1))
    # A later read finds the messages.
    assert payloads(place) == expected
    save(frame.where("id < 0"))
    # Stages known to Spark are aborted: one task fails after the other has ended.
    is_through = tmp_path / "through"
    watch = threading.Thread(target=touched, args=(is_through, spark))
    watch.start()
    with pytest.raises(PySparkException, match="a test has this task fail"):
        save(failing(frame, 100, after=is_through))
    watch.join()
    assert payloads(place) == expected
    eventually("the stages of the task that was through go", lambda: not stages_on_disk(place))
    with GatewayProxy(place.server.grpc_address) as gateway:
        gateway.refusing.add("CommitTransaction")
        with pytest.raises(PySparkException, match="not through here"):
            save(frame, servers=gateway.address)
    eventually("the stages of the batch go", lambda: not stages_on_disk(place))
    assert payloads(place) == expected
    with pytest.raises(PySparkException, match="transactionalId and batchId belong together"):
        save(frame, transactionalId="mine")


@pytest.mark.long
def test_numbered_batches(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """Check that writes of a foreachBatch function to two topics, in any order, happen exactly once."""
    place.topic("a", 400)
    place.topic("out", 0, 0)
    place.topic("odd", 0)
    exactly = place.options(topics="out,odd", guarantee="exactly-once", transactionalId="numbered", batchBytes="1k")
    switch = tmp_path / "fail"

    def write(frame: DataFrame, batch_id: int) -> None:
        chosen = frame.selectExpr("value", "IF(offset % 2 = 1, 'odd', 'out') AS topic", "offset").coalesce(1)
        ordered = chosen.sortWithinPartitions(column.desc("offset"))
        ordered.write.format("headrace").mode("append").options(**exactly, batchId=str(batch_id)).save()
        if switch.exists():
            raise RuntimeError("a test has this fail behind the commit")

    def run_all(checkpoint: str) -> None:
        frame = stream(spark, place, subscribe="a", startingOffsets="earliest", maxOffsetsPerTrigger="100")
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(int(WAIT_SECONDS)), "the query does not end"
        finally:
            query.stop()

    for _ in range(2):
        switch.touch()
        with pytest.raises(StreamingQueryException, match="behind the commit"):
            run_all("cp")
        switch.unlink()
    run_all("cp")
    odd = Counter({value: 1 for value in numbers(400) if int(value[2:]) % 2})
    settled(place, numbers(400) - odd)
    eventually("the other topic, too", lambda: payloads(place, "odd").total() >= odd.total())
    assert payloads(place, "odd") == odd
    client = place.connected()
    first = client.poll(place.stream, "odd", 0, strategy="offset", value=0, count=50).messages
    client.close()
    assert [int(message.payload[2:]) for message in first] == list(range(99, 0, -2))
    with pytest.raises(StreamingQueryException, match="FencedError"):
        run_all("another")
    again = spark.createDataFrame([("x", "out"), ("y", "nowhere")], "value STRING, topic STRING").coalesce(1)
    by_hand = exactly | {"transactionalId": "by hand", "batchId": "7"}
    with pytest.raises(PySparkException, match=r"row 1 of task 0, column topic: 'nowhere' is not one of out, odd"):
        again.write.format("headrace").mode("append").options(**by_hand).save()
    for _ in range(2):
        again.limit(1).write.format("headrace").mode("append").options(**by_hand).save()
    settled(place, numbers(400) - odd + Counter([b"x"]))
