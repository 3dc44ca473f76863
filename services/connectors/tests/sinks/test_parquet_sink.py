"""The sink for Parquet files: columns, manifests, and what is left of a process that was killed."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from functools import partial

import pyarrow.parquet as pq
import pytest
from tests.connectors.standalone import received

from headrace_chassis.directories import locked
from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Unavailable
from headrace_connectors.json_values import HugeNumber, Number
from headrace_connectors.sinks.parquet import partition
from headrace_connectors.sinks.parquet.sink import ParquetSettings, ParquetSink

PLACE = Place("s", "t", 0)
OTHER = Place("s", "a/..", 1)


def _at(second, micros=0):
    return datetime.datetime(2026, 1, 2, 3, 4, second, micros, tzinfo=datetime.UTC)


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
        ("timestamp", "infinity"),
        ("timestamp", 1_711_620_655),
        ("timestamp", True),
        ("timestamp_s", 2**62),
        ("date", 19_810),
        ("int64", "1_000"),
        ("int64", HugeNumber("1e400")),
        ("int64", Number("4503599627370497.3")),
        ("float64", HugeNumber("1e400")),
        ("float64", "1e400"),
        ("float64", 2**53 + 1),
        ("bool", 2),
        ("string", {}),
        ("float64", []),
    ],
)
async def test_a_value_that_does_not_fit_writes_nothing(tmp_path, kind, value):
    sink = await opened(tmp_path, columns={"v": kind})
    with pytest.raises(InvalidRecord, match=rf"v = .* is no {kind}: ") as caught:
        await sink.write(messages({"v": None}, {"v": value}))
    assert caught.value.index == 1
    await sink.write(messages({"v": None}))
    await sink.flush({PLACE: 2})
    assert len(rows(tmp_path)) == 1


VALUES = {
    "string": {
        1_234_567_890_123_456: "1234567890123456", 0.5: "0.5", True: "true", "007": "007", 2**70: str(2**70),
        Number("1.50"): "1.50", HugeNumber("1e400"): "1e400", Decimal("1.10"): "1.10",
    },
    "int64": {7: 7, 5.0: 5, "12": 12, Number("6.00"): 6, -(2**63): -(2**63), Decimal(3): 3},
    "float64": {
        0.5: 0.5, 3: 3.0, "1e5": 1e5, "Infinity": float("inf"),
        Number("0.12345678901234567890"): 0.12345678901234568,
    },
    "bool": {True: True, "false": False, "1": True, 0: False},
    "date": {"2026-01-02": datetime.date(2026, 1, 2), datetime.date(1, 1, 1): datetime.date(1, 1, 1)},
    "timestamp": {
        "2026-01-02 03:04:05.5": _at(5, 500_000), "2026-01-02T03:04:05.123456789Z": _at(5, 123_456),
        "2026-01-02T03:04:05Z": _at(5), "2026-01-02 08:49:05+05:45": _at(5),
        "2026-01-02 03:04:05.5+00": _at(5, 500_000),
        _at(5): _at(5),
    },
    "timestamp_s": {1_767_323_045: _at(5), 1_767_323_045.25: _at(5, 250_000), "2026-01-02T03:04:05Z": _at(5)},
    "timestamp_ms": {
        1_767_323_045_001: _at(5, 1000),
        -1: _at(5) - datetime.timedelta(days=20_455, seconds=11_045, microseconds=1000),
    },
    "timestamp_us": {1_767_323_045_000_007: _at(5, 7)},
    "timestamp_ns": {1_767_323_045_000_007_999: _at(5, 7)},
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
async def test_a_value_does_not_depend_on_those_beside_it(tmp_path, kind):
    """Regression: an id became 1.2e+15 beside a fraction, and all times of 2026 were in January 1970."""
    values = VALUES[kind]
    for name, groups in {"alone": [[value] for value in values], "together": [list(values)]}.items():
        sink = await opened(tmp_path / name, columns={"v": kind})
        first = 0
        for group in groups:
            await sink.write(messages(*({"v": value} for value in group), first=first))
            first += len(group)
        await sink.flush({PLACE: first})
        assert [row["v"] for row in rows(tmp_path / name)] == list(values.values())


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
