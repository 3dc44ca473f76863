"""Findings of `audit` in archive files and in a partition that changes during the audit, without Spark tasks."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archived import batch, listed, messages, part_of, write, writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from place import Place
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

from pyspark_headrace.errors import DataLossError
from pyspark_headrace.jobs.audit.scanning import Scanning
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.files import ArchivedFile
from pyspark_headrace.jobs.tables.reading import Part, read
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.verifying import Problem, Verifying
from pyspark_headrace.jobs.tables.writing import FileOptions
from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.read.planning import Planner

Written = tuple[Path, ArchivedFile, bytes, pa.Table]


def problems(directory: Path, file: ArchivedFile, *parts: Part, is_raw: bool = True) -> list[Problem]:
    return Verifying(str(directory), listed(file), parts or (part_of(file),), is_raw).verified().problems


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    directory = tmp_path_factory.mktemp("archive")
    (file,) = write(directory, messages(0, 300))
    return directory, file, (directory / file.path).read_bytes(), pq.ParquetFile(directory / file.path).read()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**9), mask=st.integers(1, 255))
def test_a_changed_byte_is_found_or_changes_nothing(written: Written, place: int, mask: int) -> None:
    """Check damage at any byte. Parquet has no footer checksum: footer values are compared, and unused parts may be
    damaged.
    """
    directory, file, content, table = written
    place %= len(content)
    path = directory / file.path
    path.write_bytes(content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :])
    if not problems(directory, file):
        assert pq.ParquetFile(path, page_checksum_verification=True).read().equals(table)
        found = read(Store.open(str(directory)), [listed(file)], 0, (0, 300), RAW_SCHEMA.names)
        assert pa.Table.from_batches(found).equals(table)
    path.write_bytes(content)
    assert problems(directory, file) == []


def test_messages_that_are_not_where_they_belong(tmp_path: Path) -> None:
    (file,) = write(tmp_path, messages(100, 50))
    for change, expected in (
        ({"end": 130, "rows": 30}, Problem("offset 130 is not where it belongs", 130)),
        ({"start": 120, "rows": 30}, Problem("offset 100 is not where it belongs", 100)),
        ({"end": 151, "rows": 51}, Problem("has 50 of the messages 100 to 150", 100)),
        ({"generation": "4.0"}, Problem("generation is 3.0 in its footer, and 4.0 in fact")),
        ({"date": "2026-11-22"}, Problem("message 100 is of 2026-11-21, and not of 2026-11-22", 100)),
    ):
        found = problems(tmp_path, replace(file, **change))
        assert expected in found
        assert pickle.loads(pickle.dumps(found)) == found
    # Decoded values are not compared; offsets, days and numbers of rows are.
    given = batch(messages(7, 2))
    decoded = given.set_column(RAW_SCHEMA.get_field_index("value"), "value", pa.array([{"n": 1}] * 2))
    files = writer(tmp_path, 9, options=FileOptions(mode="decoded"))
    files.write(decoded, given)
    (other,) = files.close()
    assert problems(tmp_path, other, is_raw=False) == []
    assert problems(tmp_path, other)[0].what.startswith("its columns are offset: int64")


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
            assert cut.null_keys == 140 - first
            connection.ok(Code.PURGE_TOPIC, topic)
        place.client.send("s", "t", [b"y"] * 200, partition=0)
        with pytest.raises(DataLossError, match=r"purged or created again|no longer exists"):
            scanning.scanned(split)
