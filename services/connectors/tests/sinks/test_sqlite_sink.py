"""The sink for SQLite: rows, refusals, and offsets in the same transaction."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from tests.connectors.standalone.received import OTHER, PLACE, messages

from headrace_connectors.contract import ConnectorError, InvalidRecord, Unavailable
from headrace_connectors.json_values import HugeNumber, Number
from headrace_connectors.sinks.sqlite.sink import SqliteSettings, SqliteSink


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some rows?.db"


@pytest.fixture
def database(file):
    with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=0)) as connection:
        connection.execute(
            "CREATE TABLE \"the orders\" (id INTEGER PRIMARY KEY, ware TEXT CHECK (ware <> ''), cents REAL, body TEXT)"
        )
        yield connection


@pytest.fixture
def sink_of(database, file, opened):
    """Make a sink for the table `the orders`."""

    async def make(**settings):
        return await opened(
            SqliteSink(SqliteSettings.model_validate({"path": file, "table": "the orders", **settings}))
        )

    return make


def rows(database, columns="id"):
    return database.execute(f'SELECT {columns} FROM "the orders" ORDER BY id').fetchall()


async def test_fields_are_columns(sink_of, database):
    sink = await sink_of()
    await sink.write(
        messages(
            {"id": 1, "ware": "tea", "cents": 12.5, "body": ["a", 1]},
            {"id": 2, "body": True},
            {"id": 3, "ware": None, "body": {"a": {"b": None}}},
        )
    )
    assert rows(database) == []
    await sink.flush({PLACE: 3})
    assert rows(database, "id, ware, cents, body") == [
        (1, "tea", 12.5, '["a",1]'),
        (2, None, None, "1"),
        (3, None, None, '{"a":{"b":null}}'),
    ]
    assert await sink.positions([PLACE, OTHER]) == {PLACE: 3}


DIGITS = "0.12345678901234567890"
LARGE = 2**64


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("TEXT", Number("90071992547409.93"), "90071992547409.93"), ("TEXT", 0.1 + 0.2, "0.30000000000000004"),
        ("VARCHAR(9)", Number(DIGITS), DIGITS),
        ("TEXT", HugeNumber("1e400"), "1e400"), ("TEXT", LARGE, str(LARGE)), ("TEXT", "1.50", "1.50"), ("TEXT", 7, "7"),
        ("REAL", Number("1.50"), 1.5), ("REAL", Number(DIGITS), float(DIGITS)), ("REAL", "x", "x"),
        ("NUMERIC", "12345678901234.56", 12345678901234.56), ("NUMERIC", str(2**62), 2**62), ("", "1.50", "1.50"),
        ("DECIMAL(20, 2)", Number("1.50"), 1.5), ("INTEGER", 5.0, 5), ("BLOB", b"x", b"x"),
    ],
)  # fmt: skip
async def test_a_value_is_kept(database, sink_of, kind, value, found):
    """Regression: SQLite makes 15 digits of a double in a column of text."""
    database.execute(f"CREATE TABLE kept (v {kind})")
    sink = await sink_of(table="kept")
    await sink.write(messages({"v": value}))
    await sink.flush({PLACE: 1})
    assert database.execute("SELECT v FROM kept").fetchall() == [(found,)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("NUMERIC", Number(DIGITS)), ("NUMERIC", DIGITS), ("NUMERIC", str(LARGE + 1)), ("INTEGER", LARGE),
        ("REAL", HugeNumber("1e400")), ("REAL", float("nan")), ("", Number(DIGITS)), ("INT", "1" * 30),
        ("NUMERIC", "1e999999999"),
    ],
)  # fmt: skip
async def test_a_number_that_would_be_another_one_is_refused(database, sink_of, kind, value):
    database.execute(f"CREATE TABLE kept (v {kind})")
    sink = await sink_of(table="kept")
    with pytest.raises(InvalidRecord):
        await sink.write(messages({"v": value}))


async def test_columns_can_be_mapped(sink_of, database):
    sink = await sink_of(columns={"id": "order.id", "ware": "order.ware.name"})
    await sink.write(messages({"order": {"id": 7, "ware": {"name": "milk"}}, "more": 1}, {"order": {"id": 8}}))
    await sink.flush({PLACE: 2})
    assert rows(database, "id, ware") == [(7, "milk"), (8, None)]


async def test_a_row_with_the_same_key_is_replaced(sink_of, database):
    sink = await sink_of(mode="upsert", key_columns=["id"])
    await sink.write(messages({"id": 1, "ware": "tea", "cents": 1}, {"id": 1, "cents": 2}, {"id": 1}, {"id": 2}))
    await sink.flush({PLACE: 4})
    assert rows(database, "id, ware, cents") == [(1, "tea", 2.0), (2, None, None)]


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([1], "the payload is a list; a row needs an object"),
        ({"id": 5, "wares": 1}, "wares: no columns of the orders"),
        ({}, "no value for a column"),
        ({"id": 5, "ware": object()}, "ware has no form in JSON"),
        ({"id": "five"}, "refuses the row: datatype mismatch"),
        ({"id": 1}, "refuses the row: UNIQUE constraint failed"),
        ({"id": 5, "ware": ""}, "refuses the row: CHECK constraint failed"),
        ({"id": 2**64}, "refuses the row: "),
        ({"id": 5, "ware": "\ud800"}, "refuses the row: "),
    ],
)
async def test_a_refused_row_leaves_the_earlier_ones(sink_of, database, payload, message):
    sink = await sink_of()
    await sink.write(messages({"id": 1}))
    with pytest.raises(InvalidRecord, match=message) as caught:
        await sink.write(messages({"id": 2}, payload, {"id": 4}, first=1))
    assert caught.value.index == 1
    await sink.write(messages({"id": 3}, first=3))
    await sink.flush({PLACE: 4})
    assert rows(database) == [(1,), (3,)]


async def test_a_field_chooses_the_table(sink_of, database):
    database.execute("CREATE TABLE returns (id INTEGER)")
    database.execute("CREATE TABLE kinds (id INTEGER, kind TEXT)")
    sink = await sink_of(table_field="kind", tables=["returns", "kinds"])
    await sink.write(
        messages({"id": 1}, {"id": 2, "kind": "returns"}, {"id": 3, "kind": "kinds"}, {"id": 4, "kind": None})
    )
    with pytest.raises(InvalidRecord, match=r"kind is 'headrace_offsets', and not one of settings\.tables") as caught:
        await sink.write(messages({"id": 5, "kind": "returns"}, {"id": 6, "kind": "headrace_offsets"}, first=4))
    assert caught.value.index == 1
    await sink.flush({PLACE: 6})
    assert rows(database) == [(1,), (4,)]
    assert database.execute("SELECT id FROM returns").fetchall() == [(2,)]
    assert database.execute("SELECT id, kind FROM kinds").fetchall() == [(3, "kinds")]
    with pytest.raises(ConnectorError, match="has no table missing"):
        await sink_of(table_field="kind", tables=["missing"])


async def test_a_file_that_another_program_locks_is_tried_again(sink_of, database):
    sink = await sink_of(busy_timeout="5 ms")
    database.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match=r"writing to the orders: database is locked"):
        await sink.write(messages({"id": 1}))
    with pytest.raises(Unavailable, match=r"storing offsets: database is locked"):
        await sink.flush({PLACE: 1})
    database.execute("COMMIT")
    await sink.write(messages({"id": 1}))
    await sink.flush({PLACE: 1})
    assert rows(database) == [(1,)]


async def test_two_sinks_have_offsets_of_their_own(sink_of, database):
    first, second = await sink_of(), await sink_of(offsets_name="second")
    await first.write(messages({"id": 0}))
    await first.flush({PLACE: 1})
    assert await second.positions([PLACE]) == {}
    assert database.execute("SELECT sink, next_offset FROM headrace_offsets").fetchall() == [("the orders", 1)]


async def test_parts_that_are_missing_are_named(sink_of, tmp_path):
    with pytest.raises(ConnectorError, match="there is no database"):
        await sink_of(path=tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()
    with pytest.raises(ConnectorError, match="has no table orders: create it"):
        await sink_of(table="orders")
    with pytest.raises(ConnectorError, match="the orders has no column wares; it has id, ware, cents, body"):
        await sink_of(columns={"id": "id", "wares": "x"})
    (tmp_path / "other.db").write_text("x" * 1000)
    with pytest.raises(ConnectorError, match="file is not a database"):
        await sink_of(path=tmp_path / "other.db")


async def test_a_table_that_disappears_is_no_fault_of_a_row(sink_of, database):
    sink = await sink_of()
    database.execute('DROP TABLE "the orders"')
    with pytest.raises(ConnectorError, match="no such table") as caught:
        await sink.write(messages({"id": 1}))
    assert not isinstance(caught.value, InvalidRecord | Unavailable)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "upsert"}, "belong together"),
        ({"key_columns": ["id"]}, "belong together"),
        ({"mode": "upsert", "key_columns": ["id"], "columns": {"ware": "w"}}, "columns does not fill"),
        ({"columns": {"id": "a..b"}}, "is not a path"),
        ({"tables": ["a"]}, "table_field and tables belong together"),
        ({"table_field": "kind"}, "table_field and tables belong together"),
        ({"table_field": "kind", "tables": ["Headrace_Offsets"]}, "is the table with the offsets"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SqliteSettings.model_validate({"path": "x", "table": "orders", **settings})
