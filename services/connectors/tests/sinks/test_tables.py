"""CON-81: the sinks `parquet` and `delta` with several tables, chosen by a field."""

from __future__ import annotations

from functools import partial

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.connectors.standalone import received

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Received, Record, Unavailable
from headrace_connectors.sinks.delta import table as delta_table
from headrace_connectors.sinks.delta.settings import DeltaSettings
from headrace_connectors.sinks.delta.sink import DeltaSink
from headrace_connectors.sinks.parquet import partition
from headrace_connectors.sinks.parquet.sink import ParquetSettings, ParquetSink

PLACE = Place("s", "t", 0)
OTHER = Place("s", "t", 1)
CHOICE = {"table_field": "kind", "tables": ["orders", "returns"], "columns": {"id": "int64"}}
messages = received.messages


def parquet_rows(path, table, column="id"):
    """Values of the files of a table in any partition, and none of files that do not count."""
    counted = []
    for manifest in path.glob("stream=*/topic=*/partition=*/manifest.json"):
        counted += partition.PartitionFiles(manifest.parent, "zstd").paths()
    found = sorted((path if table is None else path / table).glob("stream=*/*/*/*.parquet"))
    return [value for one in found if one in counted for value in pq.read_table(one).column(column).to_pylist()]


def delta_rows(path, table, column="id"):
    return sorted(DeltaTable(str(path / table)).to_pyarrow_table()[column].to_pylist())


SINKS = {
    "parquet": (ParquetSink, ParquetSettings, parquet_rows),
    "delta": (DeltaSink, DeltaSettings, delta_rows),
}


@pytest.fixture(params=SINKS)
def plugin(request):
    return SINKS[request.param]


@pytest.fixture
def opened(plugin, tmp_path):
    """Open a sink."""
    kind, settings_type, _ = plugin

    async def opened(**settings):
        sink = kind(settings_type.model_validate({"path": str(tmp_path), **settings}))
        await sink.open()
        return sink

    return opened


@pytest.fixture
def rows(plugin, tmp_path):
    return partial(plugin[2], tmp_path)


def order(number):
    return {"id": number, "kind": "returns" if number % 3 == 0 else "orders"}


async def test_a_field_chooses_the_table(opened, rows):
    sink = await opened(**CHOICE, table="others", table_columns={"returns": {"id": "int64", "reason": "string"}})
    await sink.write(messages({"id": 1, "kind": "orders"}, {"id": 2, "kind": "returns", "reason": "torn"}, {"id": 3}))
    await sink.write(messages({"id": 4, "kind": None}, {"id": 5, "kind": "orders"}, place=OTHER))
    assert rows("orders") == []
    await sink.flush({PLACE: 3, OTHER: 2})
    assert sorted(rows("orders")) == [1, 5]
    assert (rows("returns"), rows("returns", "reason")) == ([2], ["torn"])
    assert sorted(rows("others")) == [3, 4]
    assert await (await opened(**CHOICE)).positions([PLACE, OTHER, Place("s", "u", 0)]) == {PLACE: 3, OTHER: 2}


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"id": 1, "kind": "../x"}, r"kind is '\.\./x', and not one of settings\.tables"),
        ({"id": 1, "kind": ["orders"]}, "not one of settings.tables"),
        ({"id": 1}, r"there is no kind, and settings\.table is not set"),
        ("text", "there is no kind"),
    ],
)
async def test_a_message_without_a_table_is_invalid(opened, rows, payload, message):
    """The message is named, its write has written nothing, and earlier ones stay."""
    sink = await opened(**CHOICE)
    await sink.write(messages(order(1)))
    with pytest.raises(InvalidRecord, match=message) as caught:
        await sink.write(messages(order(2), order(3), payload, first=1))
    assert caught.value.index == 2
    await sink.write(messages(order(2), first=1))
    await sink.flush({PLACE: 4})
    assert (rows("orders"), rows("returns")) == ([1, 2], [])


async def test_an_invalid_message_is_named_among_those_of_several_partitions(opened):
    """A payload that has no form in JSON, behind messages of another partition."""
    sink = await opened()
    found = [*messages(1, 2), *messages(3, object(), place=OTHER), *messages(4, first=2)]
    with pytest.raises(InvalidRecord, match="no form in JSON") as caught:
        await sink.write(found)
    assert caught.value.index == 3


async def test_rows_of_a_message_that_was_split_may_go_to_two_tables(opened, rows):
    """The rows have the same offset."""
    sink = await opened(**CHOICE)
    await sink.write([Received(Record(order(number)), PLACE, 7, 0, None) for number in (1, 2, 3)])
    await sink.flush({PLACE: 8})
    assert (rows("orders"), rows("returns")) == ([1, 2], [3])


@pytest.mark.parametrize("call", range(1, 10))
async def test_each_message_is_in_one_table_once_whatever_is_killed(opened, rows, monkeypatch, call):
    """Stopped before each write of a file or a manifest, and after each commit."""
    calls = []

    def counted(original, *, is_after):
        def stopped(*arguments, **named):
            calls.append(original)
            if len(calls) == call and not is_after:
                raise OSError("killed")
            found = original(*arguments, **named)
            if len(calls) == call:
                raise OSError("killed")
            return found

        return stopped

    monkeypatch.setattr(partition.pq, "write_table", counted(partition.pq.write_table, is_after=False))
    monkeypatch.setattr(partition, "replace_file", counted(partition.replace_file, is_after=False))
    monkeypatch.setattr(delta_table, "write_deltalake", counted(delta_table.write_deltalake, is_after=True))
    sink = await opened(**CHOICE)

    async def flushed(sink, start):
        for first in range(start, 12, 4):
            await sink.write([*messages(*map(order, range(first, first + 4)), first=first)])
            await sink.flush({PLACE: first + 4})

    with pytest.raises(Unavailable):
        await flushed(sink, 0)
    monkeypatch.undo()
    other = await opened(**CHOICE)
    position = (await other.positions([PLACE])).get(PLACE, 0)
    assert position % 4 == 0
    await flushed(other, position)
    assert sorted(rows("orders")) == [1, 2, 4, 5, 7, 8, 10, 11]
    assert sorted(rows("returns")) == [0, 3, 6, 9]


async def test_files_of_a_killed_process_are_removed_whatever_the_settings_are(tmp_path, monkeypatch):
    """The file of `orders` does not count; the message goes to the only table that is left."""
    sink = ParquetSink(ParquetSettings.model_validate({"path": tmp_path, **CHOICE}))
    await sink.open()
    await sink.write(messages(order(1)))
    monkeypatch.setattr(partition, "replace_file", lambda *_arguments: (_ for _ in ()).throw(OSError("killed")))
    with pytest.raises(Unavailable):
        await sink.flush({PLACE: 1})
    monkeypatch.undo()
    assert len(list(tmp_path.glob("orders/*/*/*/*.parquet"))) == 1
    single = ParquetSink(ParquetSettings(path=tmp_path, columns={"id": "int64"}))
    await single.open()
    assert await single.positions([PLACE]) == {}
    assert list(tmp_path.glob("orders/*/*/*/*.parquet")) == []
    await single.write(messages(order(1)))
    await single.flush({PLACE: 1})
    assert parquet_rows(tmp_path, None) == [1]
    await sink.write(messages(order(1), order(2)))
    await sink.flush({PLACE: 2})
    assert parquet_rows(tmp_path, "orders") == [2]


async def test_manifests_of_tables_have_parts(tmp_path, monkeypatch):
    """Files of a flush begin anywhere within it: each counts once, in a part or in the newest manifest."""
    monkeypatch.setattr(partition, "PART_FILES", 3)
    sink = ParquetSink(ParquetSettings.model_validate({"path": tmp_path, **CHOICE}))
    await sink.open()
    for first in range(0, 30, 3):
        await sink.write(messages(*map(order, range(first, first + 3)), first=first))
        await sink.flush({PLACE: first + 3})
        assert sorted(parquet_rows(tmp_path, "returns")) == list(range(0, first + 1, 3))
        assert len(parquet_rows(tmp_path, "orders")) == (first + 3) * 2 // 3
    assert len(list(tmp_path.glob("stream=s/*/*/_manifests/*.json"))) == 6


async def test_a_table_and_a_directory_of_tables_are_not_mixed(tmp_path):
    async def opened(path, **settings):
        await DeltaSink(DeltaSettings.model_validate({"path": str(path), **settings})).open()

    await opened(tmp_path / "one")
    with pytest.raises(ConnectorError, match="one is a table itself: with table_field"):
        await opened(tmp_path / "one", **CHOICE)
    await opened(tmp_path / "many", **CHOICE)
    with pytest.raises(ConnectorError, match="many has the tables of a sink with table_field"):
        await opened(tmp_path / "many")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tables": ["a"]}, "tables, table and table_columns belong to table_field"),
        ({"table": "a"}, "belong to table_field"),
        ({"table_field": "kind"}, "table_field and tables belong together"),
        ({"table_field": "kind", "tables": ["a/b"]}, "'a/b' is no name of a table"),
        ({"table_field": "kind", "tables": [".."]}, "is no name of a table"),
        ({"table_field": "kind", "tables": ["_offsets"]}, "is no name of a table"),
        ({"table_field": "kind", "tables": ["stream=s"]}, "is no name of a table"),
        ({"table_field": "kind", "tables": ["a" * 201]}, "is no name of a table"),
        ({"table_field": "kind", "tables": ["a", "A"]}, "the tables a are named in capitals and without"),
        ({"table_field": "kind", "tables": [f"t{number}" for number in range(501)]}, "at most 500"),
        ({"table_field": "kind", "tables": ["a"], "table_columns": {"b": {}}}, "names b, which is not one of tables"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(plugin, settings, message):
    with pytest.raises(ValueError, match=message):
        plugin[1].model_validate({"path": "x", **settings})


def test_columns_of_partitions_are_in_every_table():
    settings = {**CHOICE, "path": "x", "partition_by": ["day"], "table_columns": {"orders": {"day": "date"}}}
    with pytest.raises(ValueError, match="partition_by names day, which is no column of returns"):
        DeltaSettings.model_validate(settings)
