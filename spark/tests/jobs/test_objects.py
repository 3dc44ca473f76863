"""Jobs with archives, plans and reports in an object store: complete runs and failures.

The server is moto (see `object_server`). Drivers and tasks are configured as on a cluster: credentials are executor
variables of Spark's configuration (`spark.executorEnv`), and the location comes from the driver. Role credentials of
AWS executors are not covered.
"""

from __future__ import annotations

import io
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import job_runs
import pyarrow.parquet as pq
import pytest
from archiving import archived_rows, arguments, consumed, same_as_consumed
from object_server import Asked, ObjectServer, environment
from place import Place
from pyspark.sql import SparkSession

from pyspark_headrace.jobs.archive.job import JOB as ARCHIVE
from pyspark_headrace.jobs.audit.job import JOB as AUDIT
from pyspark_headrace.jobs.backfill.job import JOB as BACKFILL
from pyspark_headrace.jobs.compact.job import JOB as COMPACT
from pyspark_headrace.jobs.running.job import DONE, FAILED, WRONG_ARGUMENTS, Job
from pyspark_headrace.jobs.tables.delta import DeltaLakeTable
from pyspark_headrace.jobs.usage.job import JOB as USAGE

DEST = "s3://lake/some/shop"


@pytest.fixture(scope="module")
def objects() -> Iterator[ObjectServer]:
    with ObjectServer() as server:
        yield server


@pytest.fixture
def lake(objects: ObjectServer, spark: SparkSession) -> Iterator[ObjectServer]:
    """The server with an empty bucket; environment of the driver and of executors."""
    objects.empty("lake")
    with (
        environment(objects.settings() | objects.credentials() | {"OBJECT_STORE_RETRY_TIMEOUT": "200ms"}),
        executors_have(spark, objects.credentials()),
    ):
        yield objects
    objects.fault = None


@contextmanager
def executors_have(spark: SparkSession, variables: dict[str, str]) -> Iterator[None]:
    """Simulate variables in Spark's configuration at the start of the session."""
    of_executors = spark.sparkContext.environment
    before = dict(of_executors)
    of_executors.update(variables)
    try:
        yield
    finally:
        assert of_executors == before | variables
        of_executors.clear()
        of_executors.update(before)


@dataclass
class Ran:
    code: int
    report: dict[str, Any]
    text: str
    """Complete output."""

    @property
    def counts(self) -> dict[str, int]:
        return self.report["counts"]

    @property
    def error(self) -> str:
        return str(self.report["error"])


class Runner:
    """Runs jobs in this process, and checks that no secret is disclosed."""

    def __init__(self, place: Place, directory: Path, lake: ObjectServer, capfd: pytest.CaptureFixture[str]) -> None:
        self.place = place
        self._directory = directory
        self._lake = lake
        self._capfd = capfd

    def __call__(self, job: Job[Any], *words: str) -> Ran:
        self._capfd.readouterr()
        code = job.main(words)
        said = self._capfd.readouterr()
        text = said.out + said.err
        for secret in (self._lake.credentials()["AWS_SECRET_ACCESS_KEY"], "Debug source", "RequestId"):
            assert secret not in text
        return Ran(code, json.loads(said.out.splitlines()[-1]), text)

    def archive(self, **more: str) -> Ran:
        given = {"name": "shop", "dest": DEST, "max_offsets_per_trigger": "800", "log_level": "warning"} | more
        return self(ARCHIVE, *arguments(self.place, self._directory, **given))

    def on_topics(self, job: Job[Any], **more: Any) -> Ran:
        return self(job, *job_runs.arguments(self.place, **more))


@pytest.fixture
def run(place: Place, tmp_path: Path, lake: ObjectServer, capfd: pytest.CaptureFixture[str]) -> Runner:
    return Runner(place, tmp_path, lake, capfd)


def names(lake: ObjectServer, part: str) -> list[str]:
    return [name for name in lake.keys("lake") if part in name]


def after(seen: Callable[[Asked], bool], done: Callable[[], object]) -> Callable[[Asked], int | None]:
    """Fault: the first matching request triggers a function, and is refused like all later requests while the fault is
    active.
    """
    begun = threading.Event()

    def fault(asked: Asked) -> int | None:
        if seen(asked) and not begun.is_set():
            begun.set()
            threading.Thread(target=done).start()
        return 503 if begun.is_set() else None

    return fault


@pytest.mark.long
def test_the_whole_way(run: Runner, lake: ObjectServer, tmp_path: Path) -> None:
    place = run.place
    place.topic("a", 1000, 600)
    report = tmp_path / "report.json"
    first = run.archive(report=str(report), log_level="debug")
    assert (first.code, first.report["status"], first.report["findings"]) == (DONE, "done", [])
    assert (first.counts["rows"], first.counts["batches"]) == (1600, 2)
    assert lake.credentials()["AWS_ACCESS_KEY_ID"] not in first.text + report.read_text(encoding="utf-8")
    same_as_consumed(archived_rows(DEST), place)

    merged = run(COMPACT, "--dest", DEST, "--min-files", "2", "--older-than", "0s", "--log-level", "warning")
    # Of one day, or of two.
    assert merged.code == DONE
    new = merged.counts["new_files"]
    assert 1 <= new == merged.counts["files_after"] <= 2
    assert merged.counts["merged_files"] == first.counts["files"]
    same_as_consumed(archived_rows(DEST), place)
    # Replaced files are deleted when no reader can need them any more.
    assert len(names(lake, ".parquet")) == first.counts["files"] + new
    clean = run(COMPACT, "--dest", DEST, "--remove-orphans-older-than", "0s", "--log-level", "warning")
    assert (clean.code, clean.counts["orphans"]) == (DONE, first.counts["files"])
    assert sorted(names(lake, ".parquet")) == sorted(f"some/shop/{file.path}" for file in DeltaLakeTable(DEST).files())

    looked = run.on_topics(AUDIT, topics="a", archive=DEST, out="s3://lake/audits", name="audit")
    assert (looked.code, looked.report["findings"], looked.counts["files_compared"]) == (DONE, [], new)
    assert [path.partition("/audit-")[0] for path in looked.report["details"]["written"]] == ["findings", "ranges"]
    assert len(names(lake, "audits/")) == 2

    again = {"from": f"archive:{DEST}", "to_topic": "b", "name": "again", "checkpoint": "s3://lake/plans/again"}
    back = run.on_topics(BACKFILL, **again, create_topic=True, resume=True)
    assert (back.code, back.counts["messages"]) == (DONE, 1600)
    found = {number: [message.value for message in messages] for number, messages in consumed(place, "b").items()}
    sent = {number: [message.value for message in messages] for number, messages in consumed(place, "a").items()}
    assert found == sent
    assert {name.rpartition("/")[2] for name in names(lake, "plans/again/backfill/")} == {"plan.json", "begun", "ended"}
    assert run.on_topics(BACKFILL, **again, resume=True).counts["messages"] == 0

    now = datetime.now(UTC)
    used = run.on_topics(
        USAGE,
        **{"from": f"archive:{DEST}", "until": now.isoformat(), "out": "s3://lake/usage"},
        period=now.date().isoformat(),
    )
    assert used.code == DONE
    assert used.counts["messages_in"] == 1600
    (written,) = names(lake, "usage/")
    assert pq.read_table(io.BytesIO(lake.keys("lake")[written])).num_rows == used.counts["rows"]
    assert lake.uploads("lake") == 0


@pytest.mark.long
def test_a_store_that_dies_while_it_is_written_to(
    run: Runner, lake: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that committed messages stay, the others are archived by the next run, and none is archived twice."""
    place = run.place
    place.topic("a", 1000, 600)

    def writes_second(asked: Asked) -> bool:
        return asked.method == "PUT" and "stream=" in asked.path and len(names(lake, "_delta_log/")) > 1

    with lake.failing(after(writes_second, lake.stop)):
        died = run.archive()
    # A missing store is reported as clearly.
    for gone in (
        run(COMPACT, "--dest", DEST, "--log-level", "warning"),
        run.on_topics(AUDIT, topics="a", archive=DEST),
        run.on_topics(BACKFILL, **{"from": f"archive:{DEST}", "to_topic": "b", "name": "x", "checkpoint": "/nowhere"}),
    ):
        assert gone.code == FAILED
        assert re.match(rf"StoreError: {DEST}: .*error sending request", gone.error)
    # Findings of an audit are reported even if the output cannot be written.
    unwritten = run.on_topics(AUDIT, topics="a", checks="gaps,null-key", out="s3://lake/audits")
    assert (unwritten.code, unwritten.report["status"]) == (FAILED, "failed")
    assert unwritten.error.startswith("s3://lake/audits: findings/audit-")
    assert {finding["check"] for finding in unwritten.report["findings"]} == {"null-key"}

    lake.start()
    assert (died.code, died.report["status"]) == (FAILED, "failed")
    assert re.match(rf"StoreError: {DEST}: stream=\S+\.parquet: .*(error sending request|503)", died.error)
    assert sum(file.rows for file in DeltaLakeTable(DEST).files()) == 800
    # Slow recovery: tasks and driver are refused for a while, and retry.
    seen: Counter[str] = Counter()

    def busy(asked: Asked) -> int | None:
        kind = "a file" if "parquet" in asked.path else asked.method
        seen[kind] += 1
        return 503 if seen[kind] <= 3 else None

    monkeypatch.setenv("OBJECT_STORE_RETRY_TIMEOUT", "30s")
    with lake.failing(busy):
        resumed = run.archive()
    assert (resumed.code, resumed.counts["rows"], resumed.counts["behind"]) == (DONE, 800, 0)
    assert min(seen.values()) > 3
    same_as_consumed(archived_rows(DEST), place)


@pytest.mark.long
def test_tasks_that_may_not_and_tasks_that_are_somewhere_else(
    run: Runner, lake: ObjectServer, spark: SparkSession
) -> None:
    """Check executors with other credentials, and executors whose own store has a bucket of the same name."""
    run.place.topic("a", 100)
    wrong = "wrong/secret+of+somebody"
    with executors_have(spark, {"AWS_SECRET_ACCESS_KEY": wrong}):
        refused = run.archive()
    assert refused.code == FAILED
    assert re.match(rf"StoreError: {DEST}: stream=\S+parquet: .* 403 .*SignatureDoesNotMatch", refused.error)
    assert wrong not in refused.text
    assert names(lake, ".parquet") == []
    with lake.failing(lambda asked: 200 if asked.method == "PUT" and "parquet" in asked.path else None):
        elsewhere = run.archive()
    assert elsewhere.code == FAILED
    assert re.match(
        rf"StoreError: {DEST}: stream=\S+\.parquet: does not exist, but a task has written", elsewhere.error
    )
    assert DeltaLakeTable(DEST).files() == []
    ran = run.archive()
    assert (ran.code, ran.counts["rows"]) == (DONE, 100)
    same_as_consumed(archived_rows(DEST), run.place)


def test_who_may_not_and_what_is_not_there(run: Runner, lake: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check missing permissions, as implemented by moto; S3 has more kinds of errors in the same form."""
    wrong = "wrong/secret+of+somebody"
    with monkeypatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", wrong)
        refused = run(COMPACT, "--dest", DEST)
    assert refused.code == FAILED
    assert re.match(rf"StoreError: {DEST}: .* 403 .*SignatureDoesNotMatch", refused.error)
    assert wrong not in refused.text
    missing = run(COMPACT, "--dest", "s3://missing/shop")
    assert missing.code == FAILED
    assert re.match("StoreError: s3://missing/shop: .*", missing.error)
    assert lake.keys("lake") == {}


def test_uris_that_say_too_much(run: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    cases = {
        "--dest": [ARCHIVE, "--topics", "a", "--checkpoint", "c", "--dest"],
        "--checkpoint": [ARCHIVE, "--topics", "a", "--dest", "d", "--checkpoint"],
        "--archive": [AUDIT, "--archive"],
        "--out": [AUDIT, "--archive", "a", "--out"],
        "--from": [USAGE, "--period", "2026-11", "--out", "o", "--from"],
    }
    for where, (job, *words) in cases.items():
        for secret in ("s3://key:word@lake/shop", "az://c/shop?sig=word"):
            capfd.readouterr()
            assert job.main([*words, f"archive:{secret}" if where == "--from" else secret]) == WRONG_ARGUMENTS
            said = capfd.readouterr()
            assert f"{where}: a URI must not contain a password or signature" in said.err
            assert "word" not in said.err.replace("password", "")
    assert ARCHIVE.main(["--topics", "a", "--checkpoint", "c", "--dest", "memory:///a"]) == WRONG_ARGUMENTS
    assert "'memory:///a' is not a path, file:///..., s3://..., gs://... or az://..." in capfd.readouterr().err
