"""SPK-3: the job `aggregate`: statistics by key and window, equal to those of a single batch."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from job_runs import arguments, refusals, run, send, waited_for, written
from place import Place
from pyspark.sql import SparkSession

from pyspark_headrace.jobs.aggregate.job import JOB

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = "carrier STRING, x INT, at TIMESTAMP"
LENGTH, SLIDE = 60, 30
LONG = "ü" * 200
"""Longer than the maximum size of a key."""


def at(second: float) -> str:
    return (BEGIN + timedelta(seconds=second)).isoformat()


def event(carrier: str | None, x: int | None, second: float) -> dict[str, Any]:
    return {"carrier": carrier, "x": x, "at": at(second)}


def reference(events: list[dict[str, Any]], slide: int) -> dict[tuple[str, str | None], dict[str, Any]]:
    """Compute the aggregates by window and carrier, without Spark."""
    found: dict[tuple[str, str | None], list[int | None]] = defaultdict(list)
    for one in events:
        second = (datetime.fromisoformat(one["at"]) - BEGIN).total_seconds()
        start = second // slide * slide
        while start > second - LENGTH:
            found[at(start), one["carrier"]].append(one["x"])
            start -= slide
    return {
        about: {"n": len(values), "total": sum(filter(None, values)) if set(values) != {None} else None}
        for about, values in found.items()
    }


def metrics(rows: list[Any]) -> list[tuple[bytes, tuple[str, str | None], dict[str, Any]]]:
    """Return the aggregate messages in order: message key, window and carrier, and values."""
    found = []
    for row in rows:
        value = json.loads(row.value)
        start, end = (datetime.fromisoformat(value[name]) for name in ("window_start", "window_end"))
        assert end - start == timedelta(seconds=LENGTH)
        said = {"n": value["n"], "total": value["total"]}
        found.append((bytes(row.key), (start.isoformat(), value["carrier"]), said))
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
def test_aggregates_are_those_of_a_batch(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check runs that end within windows; then late and bad messages, and one that closes all windows."""
    seed = random.randrange(2**32)
    chosen = random.Random(seed)
    place.topic("a", 0, 0)
    for topic in ("appended", "updated", "dead"):
        place.topic(topic, 0, 0)
    schema = written(tmp_path / "schema", SCHEMA)
    shared = {
        "topics": "a",
        "decode": "json",
        "schema": schema,
        "key": "carrier",
        "agg": "count(*) AS n, sum(x) AS total",
        "event_time": "at",
        "watermark": "20s",
        "state_partitions": 2,
    }
    append = arguments(
        place, **shared, name="append", window="1m", to_topic="appended", dlq="dead", checkpoint=tmp_path / "append"
    )
    update = arguments(
        place,
        **shared,
        name="update",
        window="60s,30s",
        to_topic="updated",
        output="update",
        dlq="dead",
        checkpoint=tmp_path / "update",
    )
    sent: list[dict[str, Any]] = []
    counts: dict[str, list[dict[str, int]]] = {"append": [], "update": []}

    def step(events: list[dict[str, Any]], *, late: int = 0) -> None:
        for partition in (0, 1):
            send(place, "a", partition, events[partition::2])
        sent.extend(events[late:])
        for name, words in (("append", append), ("update", update)):
            counts[name].append(run(JOB, capsys, words)["counts"])

    def some(begin: int, end: int, count: int) -> list[dict[str, Any]]:
        carriers = ("A", "B", None, LONG)
        return [
            event(chosen.choice(carriers), chosen.choice((None, 1, 2, 3)), chosen.uniform(begin, end))
            for _ in range(count)
        ]

    assert run(JOB, capsys, [*append, "--dry-run"])["counts"] == {"in": 0}
    step([*some(0, 89, 150), event("A", 1, 89)])
    # Watermark 89 s - 20 s = 69 s: the window that has ended is written.
    step([*some(70, 139, 150), event("B", 1, 139)])
    # Watermark 139 s - 20 s = 119 s: windows up to 90 s are closed, including overlapping ones. Bad messages do not
    # matter.
    late = [event("A", 100, 20), event("A", 100, 21), event("B", 100, 59), event("A", 100, 3)]
    bad: list[Any] = [b"nothing", {"carrier": "A", "x": 7}]
    send(place, "a", 0, bad)
    step([*late, *some(120, 200, 100), event("Z", 1, 10_000)], late=len(late))
    closed = {about: said for about, said in reference(sent, LENGTH).items() if about[1] != "Z"}
    found = metrics(waited_for(spark, place, "appended", len(closed)))
    assert len(found) == len(closed), f"seed {seed}"
    assert {about: said for _, about, said in found} == closed, f"seed {seed}"
    assert len({key for key, _, _ in found}) == len(closed)
    # The last aggregates of a key are final, for open windows as well.
    changing = reference(sent, SLIDE)
    rows = waited_for(spark, place, "updated", sum(one["out"] for one in counts["update"]))
    last: dict[bytes, Any] = {}
    homes: dict[bytes, set[int]] = defaultdict(set)
    for row, (key, about, said) in zip(rows, metrics(rows), strict=True):
        last[key] = (about, said)
        homes[key].add(row.partition)
    assert dict(last.values()) == changing, f"seed {seed}"
    assert len(rows) > len(last) == len(changing)
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert len(waited_for(spark, place, "dead", 4)) == 4
    for name, reported in counts.items():
        assert [one["late"] for one in reported] == [0, 0, len(late)], name
        assert [one["bad"] for one in reported] == [0, 0, 2], name
        assert sum(one["in"] for one in reported) == len(sent) + len(late) + len(bad)
        # The state of closed windows is removed.
        assert reported[-1]["state_rows"] == (1 if name == "append" else 2)
        assert max(one["state_rows_max"] for one in reported) > 4
    assert sum(one["out"] for one in counts["append"]) == len(closed)


@pytest.mark.long
def test_wrong_arguments(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = written(tmp_path / "s", SCHEMA)
    basis = ["--servers", "127.0.0.1:1", "--stream", "s", "--checkpoint", str(tmp_path / "cp"), "--to-topic", "b"]
    basis += ["--topics", "a", "--decode", "json", "--schema", str(schema), "--watermark", "30s"]

    def words(key: str = "carrier", agg: str = "count(*) AS n", window: str = "1m", *more: str) -> list[str]:
        return [*basis, "--key", key, "--agg", agg, "--window", window, *more]

    refusals(
        JOB,
        capsys,
        {
            "--key: [UNRESOLVED_COLUMN": words(key="carier"),
            "--agg: [UNRESOLVED_COLUMN": words(agg="sum(y)"),
            "--agg: [PARSE_SYNTAX_ERROR]": words(agg="sum(x"),
            "--agg: [MISSING_AGGREGATION]": words(agg="x"),
            "several expressions are named alike": words(key="carrier, carrier"),
            "aggregates are named carrier": words(agg="count(*) AS carrier"),
            "'1m,2m' is not a length like 1m": words(window="1m,2m"),
            "'soon' is not a time like": words(window="soon"),
            "--event-time: it is string, and has to be timestamp": [*words(), "--event-time", "carrier"],
            "--event-time: [UNRESOLVED_COLUMN": [*words(), "--event-time", "when"],
            "--name is required": [*words(), "--output", "update"],
            "--output: 'complete' is not one of": [*words(), "--output", "complete"],
            "--window is missing": [*basis, "--key", "carrier", "--agg", "count(*)"],
        },
    )
    assert not (tmp_path / "cp").exists()
