"""Files that the source cannot read as they are: values, rows and names without a form in Python or in UTF-8."""

from __future__ import annotations

import os
from datetime import UTC, datetime, time, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace_connectors.contract import Lag, Record
from headrace_connectors.sources.files.settings import FilesSettings
from headrace_connectors.sources.files.source import FilesSource

NO_TEXT = os.fsdecode(b"b\xff.log")


@pytest.fixture
async def files():
    """Make sources; each is closed at the end."""
    made = []

    def files(*paths, **settings) -> FilesSource:
        given = {"paths": [str(path) for path in paths], "poll_interval": "1 ms", "complete_after": "1 day", **settings}
        made.append(FilesSource(FilesSettings.model_validate(given)))
        return made[-1]

    yield files
    for one in made:
        await one.close()


async def read(source: FilesSource) -> list[Record]:
    """Return the records that there are, and commit them."""
    found: list[Record] = []
    while (batch := await source.poll()) is not None:
        found += batch.records
        await source.commit()
    return found


async def test_nanoseconds_of_parquet_are_cut(files, tmp_path):
    nanos, at = pa.timestamp("ns", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    value = int(at.timestamp()) * 10**9 + 678_901_234
    columns = {
        "at": pa.array([value, None], nanos),
        "time": pa.array([1_001, None], pa.time64("ns")),
        "taken": pa.array([2_002, None], pa.duration("ns")),
        "many": pa.array([[value], None], pa.list_(nanos)),
        "large": pa.array([[value], None], pa.large_list(nanos)),
        "object": pa.array([{"at": value, "n": 1}, None], pa.struct([("at", nanos), ("n", pa.int64())])),
        "map": pa.array([[("k", value)], None], pa.map_(pa.string(), nanos)),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    first, second = [record.payload for record in await read(files(path, format="parquet"))]
    assert first == {
        "at": at,
        "time": time(0, 0, 0, 1),
        "taken": timedelta(microseconds=2),
        "many": [at],
        "large": [at],
        "object": {"at": at, "n": 1},
        "map": [("k", at)],
    }
    assert second == dict.fromkeys(columns)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([0, 10**8, 1], pa.date32()), "date value out of range"),
        (pa.array([0, 2**60, 1], pa.timestamp("us")), "date value out of range"),
        (pa.array([b"a", b"\xff", b"c"]).view(pa.string()), "codec can't decode byte 0xff"),
    ],
)
async def test_a_row_of_parquet_without_a_value_is_invalid_and_the_others_are_read(files, tmp_path, column, message):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [0, 1, 2], "value": column}), path)
    source = files(path, format="parquet")
    records = await read(source)
    assert [record.payload["id"] for record in records if record.problem is None] == [0, 2]
    assert records[1].problem.startswith(f"{path}, line 2: a value cannot be read: ")
    assert message in records[1].problem
    assert await read(source) == []


async def test_a_file_whose_name_is_not_text_is_left_out_with_a_warning(files, tmp_path, caplog):
    (tmp_path / "a.log").write_bytes(b"1\n")
    (tmp_path / NO_TEXT).write_bytes(b"2\n")
    (tmp_path / "c.log").write_bytes("grün\n".encode())
    source = files(tmp_path / "*.log")
    assert [record.payload for record in await read(source)] == ["1", "grün"]
    assert await source.lag() == Lag(0, "bytes")
    with (tmp_path / "a.log").open("ab") as file:
        file.write(b"3\n")
    assert [record.payload for record in await read(source)] == ["3"]
    (text,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert text.endswith(r"b\udcff.log' is left out: its name is not UTF-8; rename it")


async def test_a_file_that_is_renamed_to_no_text_is_read_to_its_end(files, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    source = files(log)
    batch = await source.poll()
    await source.commit()
    batch = await source.poll()
    assert batch is not None
    assert [record.payload for record in batch.records] == ["1"]
    await source.close()
    log.write_bytes(b"1\n2\n")
    log.rename(tmp_path / NO_TEXT)
    again = files(log)
    await again.open(batch.state)
    assert [record.payload for record in await read(again)] == ["2"]
