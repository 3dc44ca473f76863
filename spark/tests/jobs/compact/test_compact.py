"""SPK-3: `compact` on archives: contents stay unchanged, and concurrent readers and writers go on."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import job_runs
import pyarrow.parquet as pq
import pytest
from archived import KEY, Message, commit, digest_of, opened, write
from deltalake import DeltaTable
from tests.faults.segment_files import flip

from pyspark_headrace.columns.digest import digest
from pyspark_headrace.jobs.compact.job import JOB
from pyspark_headrace.jobs.running.job import DONE, FOUND
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA

DAY_MICROS = 86_400_000_000
TODAY = int(time.time()) // 86_400 * 86_400
"""Today, even if the day ends during a test."""


def noon(days_ago: int) -> int:
    return (TODAY + 43_200) * 1_000_000 - days_ago * DAY_MICROS


def random_messages(start: int, count: int, at: int, size: int = 10_000) -> list[Message]:
    return [
        Message(offset, at + offset, b"k" if offset % 2 else None, os.urandom(size))
        for offset in range(start, start + count)
    ]


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = DONE) -> dict[str, Any]:
    return job_runs.run(JOB, capsys, [*arguments, "--log-level=warning"], code)


def test_small_files_are_merged_and_others_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = [noon(40), noon(2)]
    written: list[Message] = []
    for number in range(20):
        of = random_messages(number * 10, 10, days[number >= 8], size=15_000)
        commit(tmp_path, write(tmp_path, of))
        written += of if number >= 8 else []
    before = DeltaTable(tmp_path)
    arguments = ["--dest", str(tmp_path), "--target-file-mb", "1", "--expire", "30d"]
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
    # The job `archive` goes on where it was.
    commit(tmp_path, write(tmp_path, random_messages(200, 10, days[1] + 86_400_000)))
    again = run(capsys, *arguments)
    assert again["counts"]["merged_files"] == 0
    assert run(capsys, "--dest", str(tmp_path / "none"), code=1)["error"].startswith("StoreError")
    assert Counter(
        JOB.main(["--dest", str(tmp_path), *wrong])
        for wrong in (
            ["--remove-orphans-older-than", "90m"],
            ["--min-files", "1"],
            ["--expire", "soon"],
        )
    ) == {2: 3}


def test_damage_is_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check a page that Parquet reads without its checksum, a missing file, and files that were merged before."""
    keys = [KEY._replace(topic=f"t{number}") for number in range(4)]
    for key in keys:
        for start in range(0, 30, 10):
            commit(tmp_path, write(tmp_path, random_messages(start, 10, noon(2)), key=key))
    files = {key: [file for file in opened(tmp_path).files() if file.topic == key.topic] for key in keys}
    damaged, missing, other = files[keys[0]][1], files[keys[1]][2], files[keys[2]][0]
    ids = pq.read_metadata(tmp_path / damaged.path).row_group(0).column(RAW_SCHEMA.get_field_index("id"))
    flip(tmp_path / damaged.path, ids.data_page_offset + ids.total_compressed_size - 1)
    (tmp_path / missing.path).unlink()
    # The messages of another file in its place, with their own digest.
    shutil.copy(tmp_path / files[keys[2]][1].path, tmp_path / other.path)
    arguments = ["--dest", str(tmp_path), "--min-files", "2", "--older-than", "0s"]
    report = run(capsys, *arguments, code=FOUND)
    assert {finding["where"]["path"] for finding in report["findings"]} == {damaged.path, missing.path, other.path}
    assert (report["counts"]["skipped_days"], report["counts"]["merged_files"]) == (3, 3)
    after = {key: [file for file in opened(tmp_path).files() if file.topic == key.topic] for key in keys}
    assert [after[key] for key in keys[:3]] == [files[key] for key in keys[:3]]
    (merged,) = after[keys[3]]
    assert merged.rows == 30
    # Merged files are merged again.
    commit(tmp_path, write(tmp_path, random_messages(30, 10, noon(2)), key=keys[3]))
    again = run(capsys, *arguments, code=FOUND)
    assert again["counts"]["merged_files"] == 2
