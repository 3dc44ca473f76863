"""Files of an archive: contents, and detection of damage."""

from __future__ import annotations

import datetime
import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from archived import KEY, NOON, Message, batch, digest_of, messages, write
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_headrace.columns.digest import digest
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.errors import DamagedFileError, MissingFileError
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.writing import FileOptions

DAY = 86_400_000_000
HOUR = datetime.timedelta(hours=1)


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
        archive = Archive.open(directory)
        writer = archive.writer(KEY, of[-1].offset + 1, FileOptions(compression_level=level))
        bounds = sorted({0, len(of), *(cut for cut in cuts if cut < len(of))})
        for begin, end in pairwise(bounds):
            writer.write(batch(of[begin:end]))
        files = writer.close()
        archive.commit(files, job="test")
        # Each file has a single day, and matches its description in the log.
        assert [file.date for file in files] == sorted({file.date for file in files})
        read: list[Message] = []
        for file in files:
            table = archive.read_table(file)
            assert table.schema.equals(RAW_SCHEMA)
            mine = [message for message in of if file.start <= message.offset < file.end]
            assert (file.start, file.end) == (mine[0].offset, mine[-1].offset + 1)
            assert (file.first_timestamp, file.last_timestamp) == (mine[0].timestamp, mine[-1].timestamp)
            assert file.rows == len(mine)
            assert file.digest == digest_of(mine) == digest(table)
            assert table.equals(pa.Table.from_batches([batch(mine)]))
            assert pa.Table.from_batches(archive.batches(file, batch_rows=3), RAW_SCHEMA).equals(table)
            assert archive.read_table(file, ["value"]).column_names == ["value"]
            days = {datetime.datetime.fromtimestamp(m.timestamp // 10**6, datetime.UTC).date() for m in mine}
            assert {day.isoformat() for day in days} == {file.date}
            read += mine
        assert read == of
        assert sum(file.digest for file in files) % 2**64 == digest_of(of)


def test_files_are_read_by_others(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    odd = PartitionKey("a/b c=%", "ünï:#?", 3, "1", "1.0")
    files = write(archive, messages(100, 50, at=NOON + DAY // 2 - 20_000), key=odd)
    archive.commit(files, job="test")
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
    archive = Archive.open(str(tmp_path))
    options = FileOptions(target_bytes=100_000, compression="none", use_dictionary=False)
    of = messages(0, 5000, size=100)
    writer = archive.writer(KEY, 5000, options)
    for begin in range(0, 5000, 250):
        writer.write(batch(of[begin : begin + 250]))
    files = writer.close()
    assert [file.start for file in files[1:]] == [file.end for file in files[:-1]]
    assert all(100_000 <= file.bytes < 300_000 for file in files[:-1])
    assert sum(file.rows for file in files) == 5000
    # Decoded columns, with the messages passed separately.
    decoded = pa.RecordBatch.from_pydict({"offset": list(range(10)), "x": [1.5] * 10})
    writer = archive.writer(KEY, 10, FileOptions(mode="decoded"))
    writer.write(decoded, batch(of[:10]))
    (file,) = writer.close()
    assert (file.mode, file.digest) == ("decoded", digest_of(of[:10]))
    assert archive.read_table(file).column_names == ["offset", "x"]


def test_what_makes_no_file(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    assert archive.writer(KEY, 10).close() == []
    writer = archive.writer(KEY, 10)
    writer.write(batch([]))
    assert writer.close() == []
    writer = archive.writer(KEY, 10)
    writer.write(batch(messages(5, 2)))
    with pytest.raises(ValueError, match="offsets do not rise after 6"):
        writer.write(batch(messages(6, 2)))
    with pytest.raises(ValueError, match="offsets do not rise"):
        archive.writer(KEY, 10).write(batch([*messages(3, 1), *messages(2, 1)]))
    with pytest.raises(ValueError, match="there is an offset 10, beyond 10"):
        archive.writer(KEY, 10).write(batch(messages(9, 2)))
    writer.abandon()
    writer.abandon()
    assert not list(tmp_path.rglob("*.parquet*"))


def test_damage_is_noticed(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    (file,) = write(archive, messages(0, 2000))
    path = tmp_path / file.path
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(
        DamagedFileError, match=rf"{file.path}: has {len(whole) - 100} bytes, and {len(whole)} in the log"
    ):
        archive.read_table(file)
    path.write_bytes(whole[:1000] + bytes(len(whole) - 1000))
    with pytest.raises(DamagedFileError, match="cannot be read"):
        archive.read_table(file)
    for place in (300, len(whole) // 4, len(whole) // 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedFileError, match=file.path):
            archive.read_table(file)
        with pytest.raises(DamagedFileError, match=file.path):
            list(archive.batches(file))
    # Two files with exchanged contents.
    (other,) = write(archive, messages(2000, 2000))
    path.write_bytes((tmp_path / other.path).read_bytes())
    with pytest.raises(DamagedFileError, match=r"bytes, and|start is 2000 in its footer, and 0 in the log"):
        archive.read_table(file)
    path.unlink()
    with pytest.raises(MissingFileError, match=f"{file.path}: is missing"):
        archive.read_table(file)


def test_what_is_replaced_stays_for_its_readers(tmp_path: Path) -> None:
    archive = Archive.open(str(tmp_path))
    first, second = write(archive, messages(0, 100))[0], write(archive, messages(100, 100))[0]
    archive.commit([first, second], job="test")
    before = archive.state()
    (merged,) = write(archive, messages(0, 200))
    archive.commit([merged], remove=[first.path, second.path], job="compact")
    (tmp_path / "notes.parquet").write_text("of another user")
    now = datetime.datetime.now(datetime.UTC)
    assert archive.orphans(HOUR) == []
    assert sum(archive.read_table(file).num_rows for file in before.files.values()) == 200
    assert archive.orphans(HOUR, now=now + HOUR / 2) == []
    orphans = [stored.path for stored in archive.orphans(HOUR, now=now + 2 * HOUR)]
    assert sorted(orphans) == sorted([first.path, second.path])
    archive.delete(orphans)
    with pytest.raises(MissingFileError):
        archive.read_table(first)
    assert archive.read_table(merged).num_rows == 200
    with pytest.raises(ValueError, match="30 days"):
        archive.orphans(datetime.timedelta(days=31))
