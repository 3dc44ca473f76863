"""`compact` on real archives: contents stay unchanged, despite concurrent writers and crashes."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import job_runs
import pyarrow as pa
import pytest
from archived import KEY, Message, batch, described, digest_of, write
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from pyspark_headrace.columns.digest import digest
from pyspark_headrace.jobs.compact.job import JOB
from pyspark_headrace.jobs.running.job import DONE
from pyspark_headrace.jobs.tables.archive import Archive, Committed
from pyspark_headrace.jobs.tables.files import PartitionKey, date_of
from pyspark_headrace.jobs.tables.state import ArchiveState

MB = 1 << 20
DAY_MICROS = 86_400_000_000
ROWS = 12
"""Rows per file."""


TODAY = int(time.time()) // 86_400 * 86_400
"""Today, even if the day ends during a test."""


def noon(days_ago: int) -> int:
    return (TODAY + 43_200) * 1_000_000 - days_ago * DAY_MICROS


def random_messages(start: int, count: int, at: int, size: int = 10_000) -> list[Message]:
    return [
        Message(offset, at + offset, b"k" if offset % 2 else None, os.urandom(size))
        for offset in range(start, start + count)
    ]


def fill(archive: Archive, key: PartitionKey, files: int, at: int, *, start: int = 0) -> int:
    """Commit small files, and return the digest of all messages."""
    found = []
    for begin in range(start, start + files * ROWS, ROWS):
        (file,) = write(archive, random_messages(begin, ROWS, at), key=key)
        found.append(file)
    archive.commit(found, job="test")
    return sum(file.digest for file in found) % 2**64


def digests(archive: Archive, state: ArchiveState) -> dict[PartitionKey, tuple[int, int]]:
    """Return the number of rows and the digest of each partition, from reading the files."""
    found = {}
    for key, files in state.partitions.items():
        tables = [archive.read_table(file) for file in files]
        found[key] = sum(table.num_rows for table in tables), sum(map(digest, tables)) % 2**64
    return found


@contextmanager
def archiving(directory: Path) -> Iterator[list[int]]:
    """Append to the archive concurrently, as fast as possible."""
    is_over = threading.Event()
    added: list[int] = []

    def archive() -> None:
        own, key, now = Archive.open(str(directory)), KEY._replace(partition=7), int(time.time() * 1e6)
        while not is_over.is_set():
            number = len(added)
            own.commit([described(number, number + 1, key=key, at=now)], job="a", query="q", batch=number)
            added.append(number)
            time.sleep(0.02)

    other = threading.Thread(target=archive)
    other.start()
    try:
        yield added
    finally:
        is_over.set()
        other.join()


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = DONE) -> dict[str, Any]:
    return job_runs.run(JOB, capsys, [*arguments, "--log-level=warning"], code)


@pytest.mark.long
def test_small_files_are_merged_while_others_write(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive.open(str(tmp_path))
    keys = [KEY, KEY._replace(partition=1), KEY._replace(topic="returns")]
    for key in keys:
        fill(archive, key, 40, noon(2))
    fill(archive, keys[0], 20, noon(1), start=40 * ROWS)
    fill(archive, keys[1], 4, noon(1), start=40 * ROWS)
    fill(archive, keys[2], 3, noon(40), start=100_000)
    fill(archive, keys[2], 12, int(time.time() * 1e6) - 60_000_000, start=200_000)
    for days_ago in (3, 0):
        (orphan,) = write(archive, random_messages(10**6, 1, noon(2)))
        then = time.time() - days_ago * 86_400
        os.utime(tmp_path / orphan.path, (then, then))
    before = archive.state()
    contents = digests(archive, before)
    expired = [file for file in before.files.values() if file.date == date_of(noon(40))]
    arguments = ["--dest", str(tmp_path), "--target-file-mb", "1", "--expire", "30d"]

    planned = run(capsys, *arguments, "--dry-run")
    assert archive.state() == before
    assert planned["counts"]["expired_files"] == 3
    assert planned["counts"]["orphans"] == 1
    assert {(group["topic"], group["partition"]) for group in planned["details"]["groups"]} == {
        (key.topic, key.partition) for key in keys
    }

    with archiving(tmp_path) as added:
        report = run(capsys, *arguments)

    state = archive.state()
    kept = {key: files for key, files in state.partitions.items() if key.partition != 7}
    assert len(state.partitions[KEY._replace(partition=7)]) == len(added) > 5
    assert report["counts"]["merged_files"] == planned["counts"]["merged_files"] == 140
    assert report["counts"]["expired_files"] == 3
    assert report["counts"]["orphans"] == 1
    # The same messages in each partition, in files of about the requested size.
    expected = dict(contents)
    rows, sums = contents[keys[2]]
    expected[keys[2]] = (rows - 3 * ROWS, (sums - sum(file.digest for file in expired)) % 2**64)
    state_of_kept = ArchiveState(files={file.path: file for files in kept.values() for file in files})
    assert digests(archive, state_of_kept) == expected
    sizes = [file.bytes for files in kept.values() for file in files if file.date == date_of(noon(2))]
    assert len([size for size in sizes if MB / 2 <= size <= 2 * MB]) >= 0.9 * len(sizes)
    assert len(sizes) == report["counts"]["new_files"] - sum(file.date == date_of(noon(1)) for file in kept[keys[0]])
    # Too few small files, or too recent ones.
    assert sum(file.date == date_of(noon(1)) for file in kept[keys[1]]) == 4
    assert sum(file.start >= 200_000 for file in kept[keys[2]]) == 12
    # Readers of the earlier state still find all files.
    assert digests(archive, before) == contents
    # A second run has nothing to do.
    again = run(capsys, *arguments)
    assert (again["counts"]["merged_files"], again["counts"]["orphans"]) == (0, 0)
    # Replaced files are deleted after the grace period.
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    assert len(archive.orphans(datetime.timedelta(days=1), now=tomorrow)) == 140 + 3 + 1


def test_groups_that_cannot_be_merged_stay(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive.open(str(tmp_path))
    keys = [KEY._replace(partition=number) for number in range(4)]
    for key in keys:
        fill(archive, key, 10, noon(2))
    files = archive.state().partitions
    damaged, missing, taken = files[keys[0]][3], files[keys[1]][5], files[keys[2]][0]
    path = tmp_path / damaged.path
    content = path.read_bytes()
    path.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    (tmp_path / missing.path).unlink()

    # A concurrent writer removes a file from the archive after it was merged.
    original = Archive.commit

    def late(self: Archive, add: Any, **more: Any) -> Any:
        monkeypatch.setattr(Archive, "commit", original)
        assert isinstance(Archive.open(str(tmp_path)).commit([], remove=[taken.path], job="expire"), Committed)
        return original(self, add, **more)

    monkeypatch.setattr(Archive, "commit", late)
    report = run(capsys, "--dest", str(tmp_path), "--target-file-mb", "1", code=3)
    assert report["status"] == "findings"
    assert [(finding["check"], finding["level"], finding["where"]["path"]) for finding in report["findings"]] == [
        ("archive", "error", damaged.path),
        ("archive", "error", missing.path),
    ]
    counts = report["counts"]
    assert (counts["skipped_groups"], counts["refused_groups"]) == (2, 1)
    after = archive.state().partitions
    assert [len(after[key]) for key in keys] == [10, 10, 9, 1]
    assert digest(archive.read_table(after[keys[3]][0])) == sum(file.digest for file in files[keys[3]]) % 2**64


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_compaction_that_is_killed_before_its_commit(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    # The commit follows after all merges: there must be some time between the first file and the commit.
    for number in range(12):
        fill(archive, KEY._replace(partition=number), 20, noon(2))
    before = archive.state()
    count = len(before.files)
    program = Path(sys.executable).with_name("headrace-spark")
    command = [str(program), "compact", "--dest", str(tmp_path), "--target-file-mb", "1"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"SPARK_MASTER": "local[1]"},
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 500
        while len(list(tmp_path.rglob("*.parquet"))) == count:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    after = Archive.open(str(tmp_path)).state()
    assert after == before
    assert digests(archive, after) == {
        key: (sum(file.rows for file in files), sum(file.digest for file in files) % 2**64)
        for key, files in before.partitions.items()
    }
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    orphans = archive.orphans(datetime.timedelta(days=1), now=tomorrow)
    assert orphans
    assert not {stored.path for stored in orphans} & set(before.files)


def test_delta_lake(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = [noon(40), noon(2)]
    written: list[Message] = []
    for number in range(20):
        of = random_messages(number * 10, 10, days[number >= 8], size=15_000)
        rows = batch(of)
        date = datetime.date.fromisoformat(date_of(of[0].timestamp))
        for name, value in (("stream", "shop"), ("topic", "orders"), ("date", date)):
            rows = rows.append_column(name, pa.array([value] * len(of)))
        write_deltalake(tmp_path, rows, mode="append", partition_by=["stream", "topic", "date"])
        written += of if number >= 8 else []
    before = DeltaTable(tmp_path)
    arguments = ["--dest", str(tmp_path), "--format", "delta", "--target-file-mb", "1", "--expire", "30d"]
    planned = run(capsys, *arguments, "--dry-run")
    assert planned["counts"]["expired_files"] == 8
    assert DeltaTable(tmp_path).version() == before.version()
    stray = tmp_path / "stream=shop/topic=orders/stray.parquet"
    shutil.copy(before.file_uris()[0].removeprefix("file://"), stray)
    fresh = stray.with_name("fresh.parquet")
    shutil.copy(stray, fresh)
    old = time.time() - 3 * 86_400
    os.utime(stray, (old, old))

    report = run(capsys, *arguments)
    assert report["counts"] | {"orphans": 1} == report["counts"] | {"expired_files": 8, "merged_files": 12}
    after = DeltaTable(tmp_path)
    assert report["counts"]["new_files"] == len(after.file_uris()) <= 3
    content = after.to_pyarrow_table(columns=["offset", "timestamp", "key", "value"])
    assert content.num_rows == len(written) == 120
    assert digest(content) == digest_of(written)
    assert not stray.exists()
    assert fresh.exists(), "a writer may be about to commit it"
    assert before.to_pyarrow_table(columns=["offset"]).num_rows == 200, "a reader that began before"
    again = run(capsys, *arguments)
    assert again["counts"]["merged_files"] == 0
    assert run(capsys, "--dest", str(tmp_path / "none"), "--format", "delta", code=1)["error"].startswith("StoreError")
    assert Counter(
        JOB.main(["--dest", str(tmp_path), *wrong])
        for wrong in (
            ["--remove-orphans-older-than", "31d"],
            ["--format", "delta", "--remove-orphans-older-than", "90m"],
            ["--min-files", "1"],
            ["--expire", "soon"],
        )
    ) == {2: 4}
