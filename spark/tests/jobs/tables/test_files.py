"""Files of an archive: contents, and detection of damage."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from archived import NOON, Message, batch, digest_of, listed, messages, write, writer
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_headrace.columns.digest import digest
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.errors import DamagedFileError, MissingFileError
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.reading import read, runs_at
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Bounds, TableFile
from pyspark_headrace.jobs.tables.writing import FileOptions

DAY = 86_400_000_000


@st.composite
def partitions(draw: st.DrawFn) -> list[Message]:
    """Messages of several days as in a partition, with occasional gaps."""
    offset, timestamp = draw(st.integers(0, 2**62)), NOON
    found = []
    for _ in range(draw(st.integers(1, 40))):
        offset += draw(st.sampled_from([0, 0, 0, 0, 5]))
        timestamp += draw(st.sampled_from([0, 1, 1000, DAY // 4, 3 * DAY]))
        found.append(Message(offset, timestamp, draw(st.none() | st.binary(max_size=8)), draw(st.binary(max_size=40))))
        offset += 1
    return found


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(of=partitions(), cuts=st.lists(st.integers(0, 40)), level=st.sampled_from([None, 1, 3]))
def test_files_hold_what_was_written(of: list[Message], cuts: list[int], level: int | None) -> None:
    with tempfile.TemporaryDirectory() as directory:
        files_of = writer(directory, of[-1].offset + 1, options=FileOptions(compression_level=level))
        bounds = sorted({0, len(of), *(cut for cut in cuts if cut < len(of))})
        for begin, end in pairwise(bounds):
            files_of.write(batch(of[begin:end]))
        files = files_of.close()
        # Each file has a single day, and matches its description.
        assert [file.date for file in files] == sorted({file.date for file in files})
        read: list[Message] = []
        for file in files:
            table = pq.ParquetFile(Path(directory) / file.path).read()
            assert table.schema.equals(RAW_SCHEMA)
            mine = [message for message in of if file.start <= message.offset < file.end]
            assert (file.start, file.end) == (mine[0].offset, mine[-1].offset + 1)
            assert (file.first_timestamp, file.last_timestamp) == (mine[0].timestamp, mine[-1].timestamp)
            assert file.rows == len(mine)
            assert file.digest == digest_of(mine) == digest(table)
            assert table.equals(pa.Table.from_batches([batch(mine)]))
            days = {datetime.datetime.fromtimestamp(m.timestamp // 10**6, datetime.UTC).date() for m in mine}
            assert {day.isoformat() for day in days} == {file.date}
            read += mine
        assert read == of
        assert sum(file.digest for file in files) % 2**64 == digest_of(of)


def test_files_are_read_by_others(tmp_path: Path) -> None:
    odd = PartitionKey("a/b c=%", "ünï:#?", 3, "1", "1.0")
    files = write(tmp_path, messages(100, 50, at=NOON + DAY // 2 - 20_000), key=odd)
    assert len(files) == 2, "midnight is in between"
    table = ds.dataset(tmp_path, partitioning="hive", exclude_invalid_files=False, ignore_prefixes=["_"]).to_table(
        columns=["stream", "topic", "date", "offset"]
    )
    assert set(table.column("stream").to_pylist()) == {odd.stream}
    assert set(table.column("topic").to_pylist()) == {odd.topic}
    assert sorted(table.column("offset").to_pylist()) == list(range(100, 150))
    assert {str(date) for date in table.column("date").to_pylist()} == {"2026-11-21", "2026-11-22"}
    metadata = pq.read_metadata(tmp_path / files[0].path).metadata
    assert metadata[b"headrace.stream"] == odd.stream.encode()
    assert metadata[b"headrace.digest"] == f"{files[0].digest:016x}".encode()


def test_files_end_where_they_are_large_enough(tmp_path: Path) -> None:
    options = FileOptions(target_bytes=100_000, compression="none", use_dictionary=False)
    of = messages(0, 5000, size=100)
    large = writer(tmp_path, 5000, options=options)
    for begin in range(0, 5000, 250):
        large.write(batch(of[begin : begin + 250]))
    files = large.close()
    assert [file.start for file in files[1:]] == [file.end for file in files[:-1]]
    assert all(100_000 <= file.bytes < 300_000 for file in files[:-1])
    assert sum(file.rows for file in files) == 5000
    # Decoded columns, with the messages passed separately.
    decoded = pa.RecordBatch.from_pydict({"offset": list(range(10)), "x": [1.5] * 10})
    small = writer(tmp_path, 10, options=FileOptions(mode="decoded"))
    small.write(decoded, batch(of[:10]))
    (file,) = small.close()
    assert (file.mode, file.digest) == ("decoded", digest_of(of[:10]))
    assert pq.ParquetFile(tmp_path / file.path).schema_arrow.names == ["offset", "x"]


def test_what_makes_no_file(tmp_path: Path) -> None:
    assert writer(tmp_path, 10).close() == []
    one = writer(tmp_path, 10)
    one.write(batch([]))
    assert one.close() == []
    one = writer(tmp_path, 10)
    one.write(batch(messages(5, 2)))
    with pytest.raises(ValueError, match="offsets do not rise after 6"):
        one.write(batch(messages(6, 2)))
    with pytest.raises(ValueError, match="offsets do not rise"):
        writer(tmp_path, 10).write(batch([*messages(3, 1), *messages(2, 1)]))
    with pytest.raises(ValueError, match="there is an offset 10, beyond 10"):
        writer(tmp_path, 10).write(batch(messages(9, 2)))
    one.abandon()
    one.abandon()
    assert not list(tmp_path.rglob("*.parquet*"))


def ranges(directory: Path, files: Sequence[TableFile], start: int, end: int, partition: int = 0) -> list[int]:
    found = read(Store.open(str(directory)), files, partition, (start, end), RAW_SCHEMA.names)
    return [offset for rows in found for offset in rows.column("offset").to_pylist()]


def test_a_range_is_read_completely_or_not_at_all(tmp_path: Path) -> None:
    files = [listed(file) for start in (0, 2000, 4000) for file in write(tmp_path, messages(start, 2000))]
    assert ranges(tmp_path, files, 50, 4030) == list(range(50, 4030))
    assert ranges(tmp_path, files[:1], 0, 2000) == list(range(2000))
    with pytest.raises(DamagedFileError, match="messages 0 to 5999, those from 2000 on are not all there"):
        ranges(tmp_path, [files[0], files[2]], 0, 6000)
    with pytest.raises(DamagedFileError, match="from 100 on are not all there"):
        ranges(tmp_path, [files[0], files[0]], 100, 200, partition=1)
    path = tmp_path / files[0].path
    whole = path.read_bytes()
    for place in (300, len(whole) // 4, len(whole) // 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedFileError, match=files[0].path):
            ranges(tmp_path, files, 0, 2000)
    path.write_bytes(whole[:-100])
    with pytest.raises(DamagedFileError, match=f"has {len(whole) - 100} bytes, and {len(whole)} in the table"):
        ranges(tmp_path, files, 0, 2000)
    path.unlink()
    with pytest.raises(MissingFileError, match=f"{files[0].path}: is missing"):
        ranges(tmp_path, files, 0, 2000)


def test_files_with_messages_of_several_partitions(tmp_path: Path) -> None:
    """Check a file as a merge leaves it: partitions mixed, ranges out of order, and a range that is not there."""
    parts = [batch(messages(start, 20), partition) for start, partition in ((40, 0), (0, 1), (0, 0), (20, 1), (80, 0))]
    path = tmp_path / "merged.parquet"
    with pq.ParquetWriter(path, RAW_SCHEMA) as merged:
        for rows in parts:
            merged.write_batch(rows)
    (file,) = (
        replace(listed(one), path=path.name, bytes=path.stat().st_size, rows=100, partitions=Bounds(0, 1))
        for one in write(tmp_path, messages(0, 100))
    )
    found = runs_at(str(tmp_path), file)
    assert [run[:3] for run in found] == [(0, 0, 20), (0, 40, 60), (0, 80, 100), (1, 0, 40)]
    assert {run[3:] for run in found} == {(NOON, NOON + 19_000)}
    assert ranges(tmp_path, [file], 5, 35, partition=1) == list(range(5, 35))
    with pytest.raises(DamagedFileError, match=r"of the messages 0 to 59, .* are not all there"):
        ranges(tmp_path, [file], 0, 60)
    path.write_bytes(path.read_bytes()[:-1])
    assert isinstance(runs_at(str(tmp_path), file), DamagedFileError)
