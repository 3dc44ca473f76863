"""SPK-3: replay of a topic or an archive into a topic: in order, exactly once, within the rate limit."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import archived
import planted
import pytest
from kill_backfill import differences, end_of, kill_and_resume
from outputs import payloads, stages_on_disk
from place import Place
from pyspark.sql import SparkSession
from replays import arguments, content, fill, messages, origin, run
from tests.compatibility.protocol.raw import eventually

from pyspark_headrace.jobs.backfill import running, tasks
from pyspark_headrace.jobs.backfill.ledger import Ledger
from pyspark_headrace.jobs.compact.job import JOB as COMPACT
from pyspark_headrace.jobs.running.job import DONE
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.writing import FileOptions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """Simulated end of a process."""


def all_of(*counts: int) -> Counter[bytes]:
    return Counter(f"{part}:{number}".encode() for part, count in enumerate(counts) for number in range(count))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that yield several pieces per partition in a batch, and several tasks."""
    monkeypatch.setattr(running, "_PIECE_ROWS", 40)
    monkeypatch.setattr(running, "_LOAD_ROWS", 60)


@pytest.mark.long
@pytest.mark.usefixtures("small")
def test_order_and_content(
    spark: SparkSession, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    counts = (700, 0, 333, 5)
    fill(spark, place, *counts)
    more = ("--create-topic", "--batch-messages", "300")
    report = run(capfd, arguments(place, tmp_path / "cp", *more))
    assert report["counts"]["messages"] == sum(counts)
    assert report["counts"]["batches"] == report["details"]["batches"] == 4
    before, after = messages(spark, place, "a"), messages(spark, place, "b")
    assert {partition: len(rows) for partition, rows in after.items()} == {0: 700, 2: 333, 3: 5}
    for partition, rows in after.items():
        assert [content(row) for row in rows] == [content(row) for row in before[partition]]
        for old, new in zip(before[partition], rows, strict=True):
            # Producer timestamp, or server timestamp.
            kept = old.origin_timestamp or old.timestamp
            assert new.origin_timestamp == kept
            assert new.timestamp > old.timestamp
            assert bytes(new.id) != bytes(old.id)
            assert origin(new) == {
                "x-replay-source": f"topic:{place.stream}/a/{partition}",
                "x-replay-offset": str(old.offset),
                "x-replay-job": "again",
            }

    # Second replay: origin headers of the first one are replaced. By key, without timestamps and headers, with ids.
    more = ("--from", "topic:b", "--to-topic", "c", "--create-topic", "--partitioning", "key", "--preserve", "key,id")
    place.client.create_topic(place.stream, "c", 3)
    run(capfd, arguments(place, tmp_path / "again", *more, "--name", "third", "--batch-messages", "300"))
    found = messages(spark, place, "c")
    where = {bytes(row.key): partition for partition, rows in found.items() for row in rows if row.key is not None}
    assert len(set(where.values())) == 3
    for partition, rows in found.items():
        assert {where[bytes(row.key)] for row in rows if row.key is not None} == {partition}
        of_key: dict[tuple[bytes, str], list[int]] = {}
        for row in rows:
            reported = origin(row)
            assert len(row.headers) == 3
            assert reported["x-replay-job"] == "third"
            source = reported["x-replay-source"]
            assert source.startswith(f"topic:{place.stream}/b/")
            old = after[int(source.rpartition("/")[2])][int(reported["x-replay-offset"])]
            assert (bytes(old.id), bytes(old.value)) == (bytes(row.id), bytes(row.value))
            if row.key is not None:
                of_key.setdefault((bytes(row.key), source), []).append(old.offset)
        assert all(offsets == sorted(offsets) for offsets in of_key.values())
    assert sum(map(len, found.values())) == sum(counts)


@pytest.mark.usefixtures("small")
def test_what_is_replayed(spark: SparkSession, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place.topic("a", 100, 100)
    time.sleep(0.01)
    since = time.time_ns() // 1_000_000
    place.send("a", 0, range(100, 150))
    place.send("a", 1, range(100, 120))
    time.sleep(0.01)
    until = time.time_ns() // 1_000_000 + 1
    time.sleep(0.01)
    place.send("a", 1, range(120, 130))
    times = ("--since", str(since), "--until", str(until))

    # A dry run reports the plan and changes nothing.
    report = run(capfd, arguments(place, None, *times, "--dry-run"))
    assert report["dry_run"] is True
    ranges = [(part["partition"], part["start"], part["end"], part["messages"]) for part in report["details"]["ranges"]]
    assert ranges == [(0, 100, 150, 50), (1, 100, 120, 20)]
    assert report["counts"]["messages"] == 70
    # Each message has a header of 64 bytes and 5 bytes of payload.
    assert report["counts"]["bytes"] == pytest.approx(70 * 69, rel=0.02)
    assert [topic.name for topic in place.client.topics(place.stream)] == ["a"]

    place.topic("b", 0, 0)
    run(capfd, arguments(place, tmp_path / "times", *times))
    wanted = Counter(f"{part}:{number}".encode() for part, end in ((0, 150), (1, 120)) for number in range(100, end))
    assert payloads(place, "b") == wanted
    offsets = json.dumps({"1": [7, 9], "0": [149, None]})
    run(capfd, arguments(place, tmp_path / "offsets", "--offsets", offsets, "--guarantee", "at-least-once"))
    wanted += Counter([b"1:7", b"1:8", b"0:149"])
    eventually("what was appended is there", lambda: payloads(place, "b") == wanted)
    # An empty range.
    report = run(capfd, arguments(place, tmp_path / "none", "--since", str(until + 3_600_000)))
    assert report["counts"]["messages"] == report["details"]["batches"] == 0
    assert payloads(place, "b") == wanted


@pytest.mark.long
@pytest.mark.usefixtures("small")
def test_every_place_at_which_it_can_end(
    spark: SparkSession,
    place: Place,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check an end of the process before or after each step with an effect. The next run continues after the last
    batch.
    """
    place.topic("a", 300, 200)
    place.topic("b", 0, 0)
    given = arguments(place, tmp_path / "cp", "--batch-messages", "100", "--resume")
    steps = 0
    end_at = 0

    def ending(step: Any) -> Any:
        def counted(*args: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == end_at:
                raise Killed
            result = step(*args, **named)
            steps += 1
            if steps == end_at:
                raise Killed
            return result

        return counted

    for name in ("keep", "begin", "commit", "end"):
        monkeypatch.setattr(Ledger, name, ending(getattr(Ledger, name)))
    monkeypatch.setattr(running, "write", ending(tasks.write))
    killed = 0
    while True:
        # Each run fails one step later than the preceding one, and then repeats its work.
        steps, end_at = 0, killed % 6 + 1 if killed < 6 else killed % 5 + 3
        try:
            report = run(capfd, given)
        except Killed:
            killed += 1
            assert killed < 100
            continue
        break
    assert killed > 10
    assert report["counts"]["messages"] < 500
    eventually("everything is there", lambda: payloads(place, "b").total() >= 500)
    after = messages(spark, place, "b")
    assert {part: [bytes(row.value) for row in rows] for part, rows in after.items()} == {
        part: [f"{part}:{number}".encode() for number in range(count)] for part, count in enumerate((300, 200))
    }
    # The persistent state is lost.
    monkeypatch.undo()
    assert run(capfd, given)["counts"]["messages"] == 0
    assert payloads(place, "b") == all_of(300, 200)


def test_what_is_refused(spark: SparkSession, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place.topic("a", 10, 10)
    place.topic("b", 0)

    def refused(said: str, *more: str, checkpoint: str = "x", code: int = 2) -> None:
        error = run(capfd, arguments(place, tmp_path / checkpoint, *more), code)["error"]
        assert said in error, error

    refused("no partition 1, which --partitioning same needs")
    refused("--to-topic is the topic that is replayed", "--to-topic", "a")
    refused("--offsets or --since and --until", "--offsets", '{"0": [0, 1]}', "--since", "1")
    refused("partition 0 has messages 0 to 10, and not 5 to 11", "--offsets", '{"0": [5, 11]}')
    refused("there is no partition 2", "--offsets", '{"2": [5, 11]}')
    refused("is not a rate like 50000/s", "--rate", "0/s")
    refused("is not some of key, headers", "--preserve", "key,colour")
    refused("is not archive:URI or topic:NAME", "--from", "a")
    refused("--since is after --until", "--since", "2", "--until", "1")
    refused("there is no Delta Lake table", "--from", f"archive:{tmp_path}/nothing", code=1)
    refused("describing topics of", "--from", "topic:missing", code=1)

    one = ("--offsets", '{"0": [0, 10]}', "--batch-messages", "4")
    run(capfd, arguments(place, tmp_path / "one", *one))
    refused("continue it with --resume, or choose another checkpoint", *one, checkpoint="one")
    refused("of a backfill with another --offsets, --preserve", "--resume", "--preserve", "none", checkpoint="one")
    # The transactional id is free again, but not that of an incomplete backfill.
    run(capfd, arguments(place, tmp_path / "two", *one))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "write", _failing)
        refused("RuntimeError: no", *one, checkpoint="three", code=1)
    refused("another backfill has the name, and stands at batch 0 of 3", *one, checkpoint="four")
    eventually("both are there", lambda: payloads(place, "b").total() == 20)
    place.client.delete_topic(place.stream, "b")
    place.topic("b", 0)
    refused("was created again since the backfill was planned", *one, "--resume", checkpoint="three", code=1)
    assert payloads(place, "b") == Counter()


def _failing(*_: Any) -> None:
    raise RuntimeError("no")


@pytest.mark.long
def test_the_rate(spark: SparkSession, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place.topic("a", 8000, 8000)
    place.topic("b", 0, 0)
    report = run(capfd, arguments(place, tmp_path / "cp", "--rate", "2k/s", "--batch-messages", "4000"))
    # Never faster than the limit; possibly slower on a slow machine.
    assert 200 <= report["counts"]["messages_per_second"] <= 2100
    assert report["counts"]["batches"] == 4
    times = sorted(row.timestamp for rows in messages(spark, place, "b").values() for row in rows)
    # Rate without the first batch, by server timestamps: these follow each commit after a delay, and the first delay
    # may be the longest.
    seen = 12_000 / (times[-1] - times[0]).total_seconds()
    assert 200 <= seen <= 2500


@pytest.mark.usefixtures("small")
def test_being_stopped(
    spark: SparkSession,
    place: Place,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place.topic("a", 100)
    place.topic("b", 0)
    stop: list[Any] = []
    write = tasks.write

    def asked(*given: Any) -> Any:
        if len(stop) == 2:
            stop[0].set()
        return write(*given)

    def taking(self: Any, *given: Any) -> Any:
        stop.append(self._context.stop)
        return batch(self, *given)

    batch = running.Runner._batch
    monkeypatch.setattr(running, "write", asked)
    monkeypatch.setattr(running.Runner, "_batch", taking)
    given = arguments(place, tmp_path / "cp", "--rate", "50/s", "--batch-messages", "25", "--resume")
    report = run(capfd, given)
    # The second batch was staged, and waits for the rate limit.
    assert (report["status"], report["counts"]["messages"]) == ("stopped", 25)
    eventually("what was staged goes", lambda: not stages_on_disk(place))
    monkeypatch.undo()
    assert run(capfd, arguments(place, tmp_path / "cp", "--resume"))["counts"]["messages"] == 75
    eventually("everything is there", lambda: payloads(place, "b") == all_of(100))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_and_resumed(
    spark: SparkSession,
    place: Place,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Check one killed and one stopped process; `kill_backfill.py` kills any number."""
    place.topic("a", 4000, 2000)
    place.topic("b", 0, 0)
    seed = random.randrange(2**32)
    more = ("--batch-messages", "500", "--rate", "500/s")
    lived = kill_and_resume(place, tmp_path, kills=1, more=more, seed=seed)
    assert len(lived) == 1
    report = run(capfd, arguments(place, tmp_path / "checkpoint", "--batch-messages", "500", "--resume"))
    assert 0 < report["counts"]["messages"] < 6000
    assert differences(place) == [], f"seed {seed}"
    assert end_of(place) == 6000


@pytest.mark.usefixtures("small")
def test_from_an_archive(spark: SparkSession, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "archive"
    # Small files of two days; one file has several row groups.
    night = archived.NOON + 12 * 3_600_000_000 - 500_000
    keys = [PartitionKey("shop", "orders", number, "17", f"{number}.0") for number in range(2)]
    stored = {
        0: archived.messages(100, 1000, at=night, size=300),
        1: archived.messages(0, 300, at=archived.NOON, size=300),
    }
    sizes = {0: FileOptions(target_bytes=1 << 17, compression="none"), 1: FileOptions()}
    files = []
    for number, of_it in stored.items():
        writer = archived.writer(archive, of_it[-1].offset + 1, key=keys[number], options=sizes[number])
        for begin in range(0, len(of_it), 50):
            writer.write(archived.batch(of_it[begin : begin + 50], number))
        files += writer.close()
    assert len(files) >= 4
    archived.commit(archive, files[:2])
    archived.commit(archive, files[2:])
    other = keys[0]._replace(topic="other")
    archived.commit(archive, archived.write(archive, archived.messages(0, 5), key=other))
    given = arguments(
        place,
        tmp_path / "cp",
        "--from",
        f"archive:{archive}",
        "--create-topic",
        "--preserve",
        "key,headers,timestamp,id",
    )
    assert "which topic? It has shop/orders, shop/other" in run(capfd, given, 2)["error"]

    given += ["--from-topic", "orders", "--batch-messages", "400"]
    report = run(capfd, [*given, "--dry-run"])
    assert report["counts"]["messages"] == 1300
    assert report["counts"]["bytes"] == sum(file.bytes for file in files)
    run(capfd, given)
    found = messages(spark, place, "b")
    assert {number: len(rows) for number, rows in found.items()} == {0: 1000, 1: 300}
    for number, rows in found.items():
        for old, new in zip(stored[number], rows, strict=True):
            assert content(new) == (old.key, old.value, [("n", b"%d" % old.offset)])
            assert new.origin_timestamp.astimezone(UTC) == EPOCH + timedelta(microseconds=old.timestamp)
            # 0 stands for a missing id.
            assert bytes(new.id) == old.offset.to_bytes(16, "big") or old.offset == 0
            reported = origin(new)
            assert reported["x-replay-source"] == f"archive:shop/orders/{number}"
            assert reported["x-replay-offset"] == str(old.offset)

    # Times within files, and after all of them.
    since, until = ((EPOCH + timedelta(microseconds=night + at)).isoformat() for at in (250_500, 900_000))
    times = ("--since", since, "--until", until, "--to-topic", "c")
    report = run(capfd, [*given, *times, "--dry-run"])
    (part,) = report["details"]["ranges"]
    assert (part["partition"], part["start"], part["end"]) == (0, 351, 1000)
    run(capfd, [*given, *times, "--checkpoint", str(tmp_path / "times"), "--name", "times"])
    assert payloads(place, "c") == Counter(message.value for message in stored[0][251:900])

    # Merged files have messages of several partitions.
    assert COMPACT.main(["--dest", str(archive), "--min-files", "2", "--log-level", "warning"]) == DONE
    assert len(archived.opened(archive).files()) == 3, "two days of a topic, and a day of another"
    merged = [*given, "--to-topic", "d", "--checkpoint", str(tmp_path / "merged"), "--name", "merged"]
    assert run(capfd, [*merged, "--dry-run"])["counts"]["messages"] == 1300
    run(capfd, merged)
    found = messages(spark, place, "d")
    assert {number: [bytes(row.value) for row in rows] for number, rows in found.items()} == {
        number: [message.value for message in of_it] for number, of_it in stored.items()
    }

    # Missing files are an error.
    (lacking,) = (file for file in archived.opened(archive).files() if file.date == "2026-11-22")
    planted.edit_added(archive, lacking.path, lambda _: None)
    error = run(capfd, [*given, "--dry-run"], 1)["error"]
    assert "shop/orders, partition 0: the archive lacks messages between 600 and 1100" in error
