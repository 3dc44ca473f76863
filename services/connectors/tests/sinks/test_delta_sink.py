"""The sink for Delta tables: columns, offsets as transactions, and refusals."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest
from deltalake import DeltaTable
from tests.connectors.standalone import received

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Unavailable
from headrace_connectors.sinks.delta.settings import DeltaSettings
from headrace_connectors.sinks.delta.sink import DeltaSink

PLACE = Place("shop", "orders", 0)
OTHER = Place("shop", "orders", 1)
AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


messages = partial(received.messages, place=PLACE, at=int(AT.timestamp() * 1_000_000), key=b"k")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lake" / "orders"


async def opened(path, **settings):
    sink = DeltaSink(DeltaSettings.model_validate({"path": str(path), **settings}))
    await sink.open()
    return sink


def rows(path):
    return (
        DeltaTable(path).to_pyarrow_table().sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist()
    )


async def test_fields_are_columns_and_a_flush_is_a_commit(path):
    sink = await opened(path, columns={"id": "int64", "customer.name": "string", "items": "json"})
    await sink.write(messages({"id": 1, "customer": {"name": "Anna"}, "items": [1, {"a": 2}]}, {"id": 2}))
    await sink.write(messages({"id": 3}, first=7, place=OTHER))
    assert rows(path) == []
    await sink.flush({PLACE: 2, OTHER: 8})
    own = {"_stream": "shop", "_topic": "orders", "_timestamp": AT, "_key": b"k"}
    assert rows(path) == [
        {**own, "_partition": 0, "_offset": 0, "id": 1, "customer.name": "Anna", "items": '[1,{"a":2}]'},
        {**own, "_partition": 0, "_offset": 1, "id": 2, "customer.name": None, "items": None},
        {**own, "_partition": 1, "_offset": 7, "id": 3, "customer.name": None, "items": None},
    ]
    assert DeltaTable(path).version() == 1
    assert await sink.positions([PLACE, OTHER, Place("a", "b", 0)]) == {PLACE: 2, OTHER: 8}


async def test_without_columns_the_payload_is_json(path):
    sink = await opened(path, partition_by=["_topic"])
    await sink.write(messages({"a": [1]}, "text"))
    await sink.flush({PLACE: 2})
    assert [row["payload"] for row in rows(path)] == ['{"a":[1]}', '"text"']
    assert DeltaTable(path).metadata().partition_columns == ["_topic"]


async def test_two_processes_at_the_same_moment_write_nothing_twice(path, monkeypatch):
    """The second one has looked at the offset already when the first one commits."""
    first, second = await opened(path), await opened(path)
    stale = DeltaTable(path)
    await first.write(messages(1, 2))
    await first.flush({PLACE: 2})
    monkeypatch.setattr(second._offsets, "_loaded", lambda: stale)
    await second.write(messages(1, 2, 3))
    with pytest.raises(Unavailable, match="Concurrent transaction failed"):
        await second.flush({PLACE: 3})
    monkeypatch.undo()
    await second.write(messages(1, 2, 3))
    await second.flush({PLACE: 3})
    assert [row["_offset"] for row in rows(path)] == [0, 1, 2]


async def test_two_sinks_have_offsets_of_their_own(path):
    first, second = await opened(path), await opened(path, offsets_name="second")
    await first.write(messages(1))
    await first.flush({PLACE: 1})
    assert await second.positions([PLACE]) == {}


async def test_columns_are_added_if_that_is_asked_for(path):
    await opened(path, columns={"id": "int64"})
    with pytest.raises(ConnectorError, match="has no column ware: set add_columns, or correct columns"):
        await opened(path, columns={"id": "int64", "ware": "string"})
    sink = await opened(path, columns={"id": "int64", "ware": "string"}, add_columns=True)
    await sink.write(messages({"id": 1, "ware": "tea"}))
    await sink.flush({PLACE: 1})
    assert [(row["id"], row["ware"]) for row in rows(path)] == [(1, "tea")]


async def test_a_value_of_another_type_is_invalid(path):
    sink = await opened(path, columns={"id": "int64"})
    with pytest.raises(InvalidRecord, match="id = 'five' is no int64"):
        await sink.write(messages({"id": "five"}))


async def test_a_directory_that_is_no_table_is_an_error(path):
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / "00000000000000000000.json").write_text("{")
    with pytest.raises(ConnectorError, match=r"Delta table .*orders: "):
        await opened(path)


async def test_a_store_out_of_reach_is_named_in_plain_text_without_secrets(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    options = {
        "azure_storage_account_name": "account",
        "azure_storage_sas_key": "sv=2022-11-02&sig=hunter2%3D",
        "azure_storage_endpoint": "http://127.0.0.1:9",
        "azure_allow_http": "true",
        "max_retries": "0",
    }
    with pytest.raises(Unavailable, match="Connection refused") as refused:
        await opened("az://lake/orders", storage_options=options)
    assert str(refused.value).isprintable()
    assert "hunter2" not in str(refused.value)


def test_partitions_are_columns():
    with pytest.raises(ValueError, match="partition_by names day, which is no column; there are _stream, "):
        DeltaSettings.model_validate({"path": "x", "partition_by": ["day"]})


def test_options_of_the_store_are_not_printed():
    settings = DeltaSettings.model_validate({"path": "x", "storage_options": {"AWS_SECRET_ACCESS_KEY": "hidden"}})
    assert "hidden" not in repr(settings)
    assert "hidden" not in repr(DeltaSink(settings))
