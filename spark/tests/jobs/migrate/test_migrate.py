"""SPK-3: archives that the layout of an earlier release has are not lost.

`recorded/0.1.0.tar.xz` was written by the release before: `raw` has two topics, one of them with two partitions, of two
days, a merged file and a snapshot of its log; `decoded` has columns in place of values.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import archived
import job_runs
import pyarrow.compute as pc
import pytest
from archived import KEY, NOON, digest_of, messages
from archiving import archived_rows
from pyspark.sql import SparkSession

from pyspark_headrace.columns.digest import digest
from pyspark_headrace.jobs.audit.job import JOB as AUDIT
from pyspark_headrace.jobs.migrate.job import JOB
from pyspark_headrace.jobs.running.job import DONE, FAILED
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.delta import DeltaLakeTable
from pyspark_headrace.jobs.tables.errors import ArchiveError, OverlapError
from pyspark_headrace.jobs.tables.table import Batch

QUERY = "6f1b2a52-0000-4000-8000-000000000001"
MIDNIGHT = NOON + 12 * 3_600_000_000
EXPECTED = {
    ("orders", 0): [
        *messages(100, 40),
        *messages(140, 30, at=NOON + 60_000_000),
        *messages(170, 5, at=MIDNIGHT + 5_000_000),
    ],
    ("orders", 1): messages(0, 25, at=MIDNIGHT - 10_000),
    ("late orders ü%", 0): messages(0, 7),
}


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).parent / "recorded/0.1.0.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def migrate(capsys: pytest.CaptureFixture[str], place: Path, *more: str, code: int = DONE) -> dict[str, Any]:
    return job_runs.run(JOB, capsys, ["--dest", str(place), "--log-level", "warning", *more], code)


def test_an_archive_of_an_earlier_release_becomes_a_table(
    spark: SparkSession, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = recorded / "raw"
    files = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(ArchiveError, match=f"`headrace-spark migrate --dest {place}`"):
        archived.opened(place)
    would = migrate(capsys, place, "--dry-run")
    assert would["counts"] == {"files": 5, "rows": 107, "migrated": 0}
    assert {path for path in place.rglob("*") if path.is_file()} == files.keys()

    assert migrate(capsys, place)["counts"] == {"files": 5, "rows": 107, "migrated": 5}
    rows = archived_rows(place)
    for (topic, partition), of_it in EXPECTED.items():
        found = rows.filter((pc.field("topic") == topic) & (pc.field("partition") == partition)).sort_by("offset")
        assert found.column("offset").to_pylist() == [message.offset for message in of_it]
        assert digest(found) == digest_of(of_it)
    # Nothing of the archive has changed, and a second run changes nothing.
    assert {path: path.read_bytes() for path in files} == files
    assert migrate(capsys, place)["counts"]["migrated"] == 0
    assert DeltaLakeTable(str(place)).version == 0
    checked = job_runs.run(AUDIT, capsys, ["--archive", str(place), "--fail-on", "info", "--log-level", "warning"])
    assert (checked["counts"]["files"], checked["findings"]) == (5, [])

    # The job `archive` continues: its micro-batches are known, and so are the ends of partitions.
    table = archived.opened(place)
    assert table.has(QUERY, 2)
    assert not table.has(QUERY, 3)
    more = archived.write(place, messages(174, 5, at=MIDNIGHT + 6_000_000))
    batch = Batch(job="orders", query=QUERY, number=3, files=more, ranges={KEY: (174, 179)})
    with pytest.raises(OverlapError, match="up to 175 are archived"):
        table.commit(batch)
    more = archived.write(place, messages(175, 5, at=MIDNIGHT + 6_000_000))
    assert table.commit(replace(batch, files=more, ranges={KEY: (175, 180)}))
    assert archived_rows(place).num_rows == 112


def test_decoded_columns(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = recorded / "decoded"
    migrate(capsys, place)
    assert not DeltaLakeTable(str(place)).is_raw
    rows = archived_rows(place).sort_by("offset")
    assert rows.column("value").to_pylist() == [{"day": date(2026, 1, at + 1), "n": at} for at in range(9)]
    with pytest.raises(ArchiveError, match="has other columns"):
        DeltaLakeTable(str(place), RAW_SCHEMA)


def test_archives_that_are_not_complete(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = recorded / "raw/_headrace/manifest"
    third = log / f"{3:020d}.json"
    entry = json.loads(third.read_text())
    for wrong in ("{", json.dumps(entry | {"v": 2}), json.dumps(entry | {"add": [{"path": "../x"}]}), None):
        if wrong is None:
            third.unlink()
        else:
            third.write_text(wrong)
        error = migrate(capsys, recorded / "raw", code=FAILED)["error"]
        assert "_headrace/manifest/00000000000000000003.json is missing or damaged" in error
    third.write_text(json.dumps(entry))
    file = recorded / "raw" / entry["add"][0]["path"]
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert f"has {len(content) - 1} bytes" in migrate(capsys, recorded / "raw", code=FAILED)["error"]
    again = [entry["add"][0] | {"generation": "9.0", "path": entry["add"][0]["path"].replace("p0-", "p0-9")}]
    third.write_text(json.dumps(entry | {"add": [*entry["add"], *again]}))
    assert "was created again or purged" in migrate(capsys, recorded / "raw", code=FAILED)["error"]
    (recorded / "empty").mkdir()
    assert "there is no archive" in migrate(capsys, recorded / "empty", code=FAILED)["error"]
    assert not list(recorded.rglob("_delta_log"))
