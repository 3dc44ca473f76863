"""SPK-3: the job `dedupe`: duplicates, and only these, are removed, in a stream and in a batch."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from job_runs import arguments, headers, refusals, run, send, stored, waited_for, written
from place import Place
from pyspark.sql import SparkSession

from pyspark_headrace.jobs.dedupe.job import JOB
from pyspark_headrace.jobs.dedupe.rows import duplicates
from pyspark_headrace.jobs.running.job import DONE, FAILED, FOUND

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = "user STRING, n INT, at TIMESTAMP"
WITHIN = 600
NOTHING = b"nothing"
KEYS = 400


def event(user: str | None, second: float, number: int) -> dict[str, Any]:
    return {"user": user, "n": number, "at": (BEGIN + timedelta(seconds=second)).isoformat()}


def brute_force(times: list[int], within: int) -> list[int]:
    found, kept = [], None
    for place, time in enumerate(times):
        if kept is not None and time - kept <= within:
            found.append(place)
        else:
            kept = time
    return found


def test_which_of_several_are_left_out() -> None:
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    for _ in range(300):
        times = sorted(chosen.randrange(60) for _ in range(chosen.randrange(30)))
        within = chosen.randrange(1, 20)
        assert duplicates(times, within) == brute_force(times, within), f"seed {seed}"


class Steps:
    """Sent messages, with a run of the job after each step."""

    def __init__(self, place: Place, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
        self.sent: dict[int, list[bytes]] = {0: [], 1: []}
        self.counts: list[dict[str, int]] = []
        self._place, self._capsys, self._words = place, capsys, words

    @property
    def total(self) -> int:
        return sum(map(len, self.sent.values()))

    def step(self, events: list[Any], code: int = DONE) -> dict[str, Any]:
        """Send events, as user and second, or as bytes; alternating between both partitions."""
        for partition in (0, 1):
            values = [
                one if isinstance(one, bytes) else json.dumps(event(*one, self.total + number)).encode()
                for number, one in enumerate(events[partition::2])
            ]
            self.sent[partition] += values
            send(self._place, "a", partition, values)
        report = run(JOB, self._capsys, self._words, code)
        self.counts.append(report["counts"])
        return report

    def duplicates(self) -> int:
        """Number of duplicates among all sent messages."""
        moments: dict[str, list[int]] = {}
        for value in [*self.sent[0], *self.sent[1]]:
            one = json.loads(value) if value != NOTHING else {}
            if one.get("user") is not None:
                when = datetime.fromisoformat(one["at"]) - BEGIN
                moments.setdefault(one["user"], []).append(when // timedelta(microseconds=1))
        return sum(len(brute_force(sorted(times), WITHIN * 10**6)) for times in moments.values())

    def check_order(self, rows: list[Any]) -> None:
        """Check that messages of one partition keep their order."""
        places = {value: (part, at) for part, values in self.sent.items() for at, value in enumerate(values)}
        for part in (0, 1):
            offsets = [
                at for own, at in (places[bytes(row.value)] for row in rows if row.value != NOTHING) if own == part
            ]
            assert len(offsets) > KEYS // 4
            assert offsets == sorted(offsets)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_stream_and_a_batch(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    place.topic("a", 0, 0)
    for topic in ("out", "exact"):
        place.topic(topic, 0)
    schema = written(tmp_path / "schema", SCHEMA)
    shared = {"topics": "a", "decode": "json", "schema": schema, "key": "user", "event_time": "at"}
    shared |= {"within": f"{WITHIN}s"}
    stream = {"name": "dedupe", "to_topic": "out", "checkpoint": tmp_path / "cp", "state_partitions": 2}
    steps = Steps(place, capsys, arguments(place, **shared, **stream))
    early = {f"user {number}": chosen.uniform(0, 250) for number in range(KEYS // 2)}
    later = {f"user {number}": chosen.uniform(1300, 1500) for number in range(KEYS // 2, KEYS)}
    lots = chosen.sample(sorted(early), len(early))
    several = KEYS // 40
    inside, known, outside = lots[:several], lots[several : 2 * several], lots[2 * several : 3 * several]
    again = chosen.sample(sorted(later), several)
    keyless: list[Any] = [(None, 5.0), (None, 5.0), NOTHING, NOTHING]
    # In the same micro-batch as the first one, in any order.
    steps.step([*early.items(), *((user, early[user] + chosen.uniform(0, 400)) for user in inside), *keyless])
    steps.step([(user, early[user] + 400) for user in known])
    # Watermark 1500 s - 600 s: the end of all initial state.
    steps.step([*later.items()])
    steps.step([*((user, later[user] + 500) for user in again), *((user, 1600.0) for user in outside)])
    kept = steps.total - 3 * several
    assert [one["dropped"] for one in steps.counts] == [several, several, 0, several], f"seed {seed}"
    assert [one["bad"] for one in steps.counts] == [2, 0, 0, 0]
    assert [one["late"] for one in steps.counts] == [0] * 4
    assert sum(one["out"] for one in steps.counts) == kept == KEYS + several + len(keyless)
    # State is removed over time: that of the first users is gone at the end.
    assert steps.counts[0]["state_rows"] >= KEYS // 2
    assert steps.counts[-1]["state_rows"] == KEYS // 2 + several, f"seed {seed}"
    rows = waited_for(spark, place, "out", kept)
    users = Counter(json.loads(row.value)["user"] for row in rows if row.value != NOTHING)
    assert users == Counter(dict.fromkeys([*early, *later], 1) | dict.fromkeys([*outside, None], 2)), f"seed {seed}"
    steps.check_order(rows)
    # A message older than the watermark is reported.
    report = steps.step([(lots[3 * several], 1.0)], code=FOUND)
    assert (report["status"], report["counts"]["late"], report["counts"]["out"]) == ("findings", 1, 0)
    assert report["findings"][0]["check"] == "late"
    # A batch covers all messages, with the same result as brute force. After a late message its user occurs once more.
    batch = arguments(place, **shared, batch=True)
    dropped = steps.duplicates()
    wanted = {"in": steps.total, "out": steps.total - dropped, "bad": 2, "dropped": dropped, "late": 0}
    assert dropped == 3 * several + 1, f"seed {seed}"
    for words in (["--report-only"], ["--to-topic", "exact"]):
        assert run(JOB, capsys, [*batch, *words])["counts"] == wanted, f"seed {seed}"
    assert len(waited_for(spark, place, "exact", wanted["out"])) == wanted["out"]


@pytest.mark.long
def test_ids(spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that ids and headers are preserved; a stream that only reports writes nothing."""
    place.topic("a", 30)
    place.topic("out", 0)
    for number in range(3):
        place.send_with("a", 77, f"x{number}".encode(), headers({"h": "1", "headrace.key": "k"}), 7_000_000)
    given = arguments(place, topics="a", within="1h", name="ids")
    report = run(JOB, capsys, [*given, "--report-only", "--checkpoint", str(tmp_path / "cp")])
    assert (report["counts"]["in"], report["counts"]["out"], report["counts"]["dropped"]) == (33, 31, 2)
    assert run(JOB, capsys, [*given, "--batch", "--to-topic", "out"])["counts"]["dropped"] == 2
    last = waited_for(spark, place, "out", 31)[-1]
    assert (bytes(last.value), bytes(last.key), [tuple(header) for header in last.headers]) == (
        b"x0",
        b"k",
        [("h", b"1")],
    )
    report = run(JOB, capsys, [*given, "--batch", "--to-topic", "out", "--dry-run"])
    assert (report["counts"], report["dry_run"]) == ({"in": 33}, True)


@pytest.mark.long
def test_messages_that_cannot_be_copied_unchanged(
    spark: SparkSession, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that such messages end the job, which would lose a part of them. Reports count them."""
    reasons = {
        "encrypted": "its headers cannot be read",
        "empty": "it is empty",
        "keys": "it has several headers headrace.key",
    }
    for topic in reasons:
        place.topic(topic, 2)
    place.topic("out", 0)
    place.send_with("encrypted", 77, b"x", b"\xff" * 32, 7_000_000)
    send(place, "empty", 0, [b""])
    place.send_with("keys", 78, b"x", headers({"headrace.key": "k"}) * 2, 7_000_000)
    for topic, reason in reasons.items():
        given = arguments(place, topics=topic, within="1h", batch=True)
        assert run(JOB, capsys, [*given, "--report-only"])["counts"]["out"] == 3
        report = run(JOB, capsys, [*given, "--to-topic", "out"], FAILED)
        assert f"message in topic {topic}, partition 0, offset 2: {reason}" in report["error"]
    assert stored(spark, place, "out") == []


def test_wrong_arguments(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    basis = ["--servers", "127.0.0.1:1", "--stream", "s", "--topics", "a", "--within", "1h"]
    checkpoint = ["--checkpoint", str(tmp_path / "cp")]
    schema = ["--decode", "json", "--schema", str(written(tmp_path / "schema", "id INT, m MAP<STRING, INT>"))]
    named = [*basis, *checkpoint, "--to-topic", "b", "--name", "n"]
    refusals(
        JOB,
        capsys,
        {
            "exactly one of --to-topic and --report-only": [*basis, *checkpoint],
            "--name is required": [*basis, *checkpoint, "--to-topic", "b"],
            "--checkpoint is required": [*basis, "--report-only"],
            "--checkpoint is for streams": [*basis, *checkpoint, "--report-only", "--batch"],
            "it has no --starting-offsets": [*basis, "--report-only", "--batch", "--starting-offsets", "latest"],
            "the schema has an id, too": [*named, *schema],
            "--key: [UNRESOLVED_COLUMN": [*named, "--key", "nobody"],
            "--event-time: it is binary": [*named, "--event-time", "value"],
            "has parts that cannot be compared": [*named, *schema, "--key", "m"],
        },
    )
    assert not (tmp_path / "cp").exists()
