"""The sink for Parquet files: columns, manifests, and what is left of a process that was killed."""

from __future__ import annotations

import datetime
import json
from functools import partial

import pyarrow.parquet as pq
import pytest
from tests.connectors.standalone import received

from headrace_chassis.directories import locked
from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Unavailable
from headrace_connectors.sinks.parquet import partition
from headrace_connectors.sinks.parquet.sink import ParquetSettings, ParquetSink

PLACE = Place("s", "t", 0)
OTHER = Place("s", "a/..", 1)


messages = partial(received.messages, at=1_000_000, key=b"key")


async def opened(path, **settings):
    sink = ParquetSink(ParquetSettings.model_validate({"path": path, **settings}))
    await sink.open()
    return sink


def directory(path, place="stream=s/topic=t/partition=0"):
    return path / place


def rows(path):
    """Rows of the files that count."""
    files = partition.PartitionFiles(directory(path), "zstd").paths()
    return [row for file in files for row in pq.read_table(file).to_pylist()]


async def test_payloads_are_json_without_columns(tmp_path):
    sink = await opened(tmp_path)
    await sink.write([*messages({"id": 1}), *messages("x", place=OTHER), *messages([2], first=1)])
    await sink.flush({PLACE: 2, OTHER: 1})
    at = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert [(row["_offset"], row["_timestamp"], row["_key"], row["payload"]) for row in rows(tmp_path)] == [
        (0, at, b"key", '{"id":1}'),
        (1, at, b"key", "[2]"),
    ]
    assert (directory(tmp_path, "stream=s/topic=a%2F../partition=1") / "00000000000000000000.parquet").exists()
    assert await (await opened(tmp_path)).positions([PLACE, OTHER, Place("s", "t", 1)]) == {PLACE: 2, OTHER: 1}


async def test_columns_have_types(tmp_path):
    columns = {
        "id": "int64", "price": "float64", "is_new": "bool", "who.name": "string", "day": "date", "at": "timestamp",
        "more": "json",
    }  # fmt: skip
    sink = await opened(tmp_path, columns=columns)
    day, at = "2026-01-02", "2026-01-02T03:04:05.000006Z"
    whole = {"id": 1, "price": 2, "is_new": True, "who": {"name": "ä"}, "day": day, "at": at, "more": [1], "x": 1}
    await sink.write(messages(whole, {}, 7))
    await sink.write(messages({"price": 2.5, "at": None}, first=3))
    await sink.flush({PLACE: 4})
    found = [[row[name] for name in columns] for row in rows(tmp_path)]
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    assert found == [
        [1, 2.0, True, "ä", datetime.date(2026, 1, 2), moment, "[1]"],
        [None] * 7,
        [None] * 7,
        [None, 2.5, *[None] * 5],
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int64", "x"),
        ("int64", 1.5),
        ("int64", 2**64),
        ("bool", "maybe"),
        ("date", "2026-13-01"),
        ("timestamp", "now"),
        ("string", {}),
        ("float64", []),
    ],
)
async def test_a_value_that_does_not_fit_writes_nothing(tmp_path, kind, value):
    sink = await opened(tmp_path, columns={"v": kind})
    with pytest.raises(InvalidRecord, match=f"v is no {kind}"):
        await sink.write(messages({"v": None}, {"v": value}))
    await sink.write(messages({"v": None}))
    await sink.flush({PLACE: 2})
    assert len(rows(tmp_path)) == 1


async def test_files_that_do_not_count_are_removed(tmp_path):
    sink = await opened(tmp_path)
    await sink.write(messages(1))
    await sink.flush({PLACE: 1})
    for name in ("00000000000000000001.parquet", "00000000000000000001.parquet.unfinished"):
        (directory(tmp_path) / name).write_bytes(b"half")
    assert await sink.positions([PLACE]) == {PLACE: 1}
    assert [path.name for path in directory(tmp_path).glob("*.parquet*")] == ["00000000000000000000.parquet"]


async def test_a_flush_that_fails_is_repeated_as_a_whole(tmp_path):
    sink = await opened(tmp_path)
    await sink.write(messages(0))
    directory(tmp_path).mkdir(parents=True)
    with locked(directory(tmp_path)), pytest.raises(Unavailable, match="files of s/t, partition 0"):
        await sink.flush({PLACE: 1})
    await sink.write(messages(0))
    await sink.flush({PLACE: 1})
    assert [row["payload"] for row in rows(tmp_path)] == ["0"]


@pytest.mark.parametrize(("text", "message"), [("{", "is no manifest"), ('{"format": 4}', "has format 4")])
async def test_a_manifest_that_cannot_be_read_stops_the_sink(tmp_path, text, message):
    sink = await opened(tmp_path)
    directory(tmp_path).mkdir(parents=True)
    (directory(tmp_path) / "manifest.json").write_text(text)
    with pytest.raises(ConnectorError, match=message):
        await sink.positions([PLACE])


async def test_a_path_that_is_no_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectorError, match="correct settings"):
        await opened(tmp_path / "file" / "more")


async def flushed(sink, offset):
    await sink.write(messages(offset, first=offset))
    await sink.flush({PLACE: offset + 1})


async def test_a_manifest_stays_small(tmp_path, monkeypatch):
    """CON-22: older files are in parts, which are written once; each file counts once, whatever is read first."""
    monkeypatch.setattr(partition, "PART_FILES", 5)
    sink = await opened(tmp_path)
    sizes = []
    for offset in range(33):
        await flushed(sink, offset)
        sizes.append((directory(tmp_path) / "manifest.json").stat().st_size)
        assert [row["payload"] for row in rows(tmp_path)] == [str(number) for number in range(offset + 1)]
    assert max(sizes[10:]) == max(sizes[-10:])
    assert len(list(directory(tmp_path).glob("_manifests/*.json"))) == 6
    assert await (await opened(tmp_path)).positions([PLACE]) == {PLACE: 33}
    assert len(list(directory(tmp_path).glob("*.parquet"))) == 33


@pytest.mark.parametrize("call", range(1, 8))
async def test_a_part_counts_when_the_manifest_does(tmp_path, monkeypatch, call):
    """Killed at any replacement of a file, each message is there once; the sink writes what is missing again."""
    monkeypatch.setattr(partition, "PART_FILES", 2)
    sink = await opened(tmp_path)
    replace, calls = partition.replace_file, []

    def killed(path, text):
        calls.append(path)
        if len(calls) == call:
            raise OSError("killed")
        replace(path, text)

    monkeypatch.setattr(partition, "replace_file", killed)

    async def all_flushed():
        for offset in range(9):
            await flushed(sink, offset)

    with pytest.raises(Unavailable):
        await all_flushed()
    monkeypatch.setattr(partition, "replace_file", replace)
    other = await opened(tmp_path)
    position = (await other.positions([PLACE])).get(PLACE, 0)
    assert [row["payload"] for row in rows(tmp_path)] == [str(number) for number in range(position)]
    for offset in range(position, 9):
        await flushed(other, offset)
    assert [row["payload"] for row in rows(tmp_path)] == [str(number) for number in range(9)]


async def test_a_manifest_of_the_first_format_is_taken_over(tmp_path, monkeypatch):
    sink = await opened(tmp_path)
    for offset in range(10):
        await flushed(sink, offset)
    path = directory(tmp_path) / "manifest.json"
    written = json.loads(path.read_text())
    path.write_text(json.dumps({"format": 1, "next_offset": 10, "files": written["files"]}))
    monkeypatch.setattr(partition, "PART_FILES", 3)
    assert await sink.positions([PLACE]) == {PLACE: 10}
    assert len(rows(tmp_path)) == 10
    await flushed(sink, 10)
    assert [row["payload"] for row in rows(tmp_path)] == [str(number) for number in range(11)]
    assert json.loads(path.read_text())["format"] == 3
    assert len(json.loads(path.read_text())["files"]) <= 3
    assert len(list(directory(tmp_path).glob("_manifests/*.json"))) == 3
