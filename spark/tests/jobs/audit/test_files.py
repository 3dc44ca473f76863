"""Findings of `audit` in archive files and in a partition that changes during the audit, without Spark tasks."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from archived import KEY, batch, described, messages, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from place import Place
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

from pyspark_headrace.errors import DataLossError
from pyspark_headrace.jobs.audit.archived import check_log
from pyspark_headrace.jobs.audit.config import ARCHIVE
from pyspark_headrace.jobs.audit.findings import Findings
from pyspark_headrace.jobs.audit.scanning import Scanning
from pyspark_headrace.jobs.audit.verifying import Problem, verified
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.files import ArchivedFile
from pyspark_headrace.jobs.tables.reading import opened
from pyspark_headrace.jobs.tables.writing import FileOptions
from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.read.planning import Planner

Written = tuple[Archive, ArchivedFile, bytes, pa.Table]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    directory = tmp_path_factory.mktemp("archive")
    archive = Archive.open(str(directory))
    (file,) = write(archive, messages(0, 300))
    return archive, file, (directory / file.path).read_bytes(), archive.read_table(file)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**9), mask=st.integers(1, 255))
def test_a_changed_byte_is_found_or_changes_nothing(written: Written, place: int, mask: int) -> None:
    """Check damage at any byte. Parquet has no footer checksum: footer values are compared, and unused parts may be
    damaged.
    """
    archive, file, content, table = written
    place %= len(content)
    path = Path(archive.uri) / file.path
    path.write_bytes(content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :])
    if not verified(archive, file):
        with opened(archive.store, file, any_footer=True) as parquet:
            assert parquet.read().equals(table)
        assert archive.read_table(file).equals(table)
    path.write_bytes(content)
    assert verified(archive, file) == []


def test_messages_that_are_not_where_they_belong(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    (file,) = write(archive, messages(100, 50))
    reported = file.to_json()
    for change, expected in (
        ({"end": 130, "rows": 30}, Problem("offset 130 is not where it belongs", 130)),
        ({"start": 120, "rows": 30}, Problem("offset 100 is not where it belongs", 100)),
        ({"rows": 49}, Problem("has 50 rows, and 49 in the log")),
        ({"digest": "0" * 16}, Problem(f"digest of its messages is {file.digest:016x}, and {'0' * 16} in the log")),
        ({"date": "2026-11-22"}, Problem("message 100 is of 2026-11-21, and not of 2026-11-22", 100)),
    ):
        problems = verified(archive, ArchivedFile.from_json(reported | change))
        assert expected in problems
        assert pickle.loads(pickle.dumps(problems)) == problems
    # Decoded values are not compared; offsets, days and numbers of rows are.
    decoded = pa.RecordBatch.from_pydict({"offset": [7, 8], "timestamp": batch(messages(7, 2)).column("timestamp")})
    writer = archive.writer(KEY, 9, FileOptions(mode="decoded"))
    writer.write(decoded, batch(messages(7, 2)))
    (other,) = writer.close()
    assert verified(archive, other) == []
    wrong = ArchivedFile.from_json(other.to_json() | {"mode": "raw"})
    assert verified(archive, wrong)[0].what.startswith("its columns are offset: int64")


def test_holes_and_overlaps_by_the_log_alone() -> None:
    def found(*files: ArchivedFile) -> list[tuple[str, str, int, int]]:
        findings = Findings(frozenset({ARCHIVE}))
        check_log({KEY: files}, findings)
        return [(one.level, one.where["path"], one.where["offset"], one.where["until"]) for one in findings.listed]

    first, second, third = described(0, 10), described(10, 20), described(20, 30)
    assert found(first, second, third) == []
    assert found(first, third) == [("error", third.path, 10, 20)]
    inside = described(12, 15, token=1)
    assert found(first, second, inside, third) == [("error", inside.path, 12, 15)]
    less = replace(second, rows=7)
    assert found(first, less, third) == [("error", less.path, 10, 20)]
    # Bad messages are missing in decoded files.
    assert found(first, replace(less, mode="decoded"), third) == [("info", less.path, 10, 20)]
    assert found(first, replace(third, mode="decoded")) == [("info", third.path, 10, 20)]


def test_a_partition_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """Check a partition that changes: messages removed by retention are no fault, a purge is."""
    small = {"SYSTEM_SEGMENT_SIZE": "32 KiB", "MESSAGE_SAVER_SYNC_INTERVAL": "10 ms"}
    with ServerProcess(tmp_path / "data", small) as server, Place(server, "s") as place:
        place.client.create_topic("s", "t", 1)
        for _ in range(14):
            place.client.send("s", "t", [b"x" * 900] * 10, partition=0)
        options = batch_options(place.options(subscribe="t"))
        planner = Planner(options)
        (split,) = planner.splits({("t", 0): (0, 140)}, planner.describe(with_sizes=True), is_batch=True)
        scanning = Scanning(options, {}, size_limit=1 << 20)
        whole = scanning.scanned(split)
        assert (whole.rows, whole.removed, len(whole.pieces)) == (140, 0, 1)
        with RawConnection.as_root(server.address) as connection:
            topic = frames.ident("s") + frames.ident("t")
            connection.ok(Code.DELETE_SEGMENTS, topic + frames.u32(0) + frames.u32(2))
            first = planner.describe().partitions["t", 0].first_offset
            assert 0 < first < 140
            rest = scanning.scanned(split)
            assert (rest.rows, rest.removed, rest.first_offset) == (140 - first, first, first)
            assert rest.unreadable == []
            cut = Scanning(options, {("t", 0): [0, 100, 120]}, size_limit=899).scanned(split)
            assert [(piece.start, piece.end) for piece in cut.pieces] == [(first, 100), (100, 120), (120, 140)]
            assert sum(piece.digest for piece in cut.pieces) % 2**64 == cut.digest == rest.digest
            assert (cut.large_count, cut.large[0]) == (140 - first, (first, 900))
            assert json.loads(cut.to_text())["null_keys"] == 140 - first
            connection.ok(Code.PURGE_TOPIC, topic)
        place.client.send("s", "t", [b"y"] * 200, partition=0)
        with pytest.raises(DataLossError, match=r"purged or created again|no longer exists"):
            scanning.scanned(split)
