"""The sink for PostgreSQL: rows, refusals, and offsets in the same transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import psycopg
import pytest
from tests.connectors.standalone.received import OTHER, PLACE, messages

from headrace_connectors.contract import ConnectorError, InvalidRecord, Unavailable
from headrace_connectors.json_values import HugeNumber, Number, json_value
from headrace_connectors.sinks.postgres.settings import PostgresSinkSettings
from headrace_connectors.sinks.postgres.sink import PostgresSink


@pytest.fixture
def sink_of(database, database_url, opened):
    """Make a sink for the table `orders`."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, ware text, cents numeric, body jsonb, at timestamptz)")

    async def make(**settings):
        filled = {"url": database_url, "table": "public.orders", **settings}
        return await opened(PostgresSink(PostgresSinkSettings.model_validate(filled)))

    return make


def rows(database, columns="id"):
    return database.execute(f"SELECT {columns} FROM orders ORDER BY id").fetchall()


async def test_fields_are_columns(sink_of, database):
    sink = await sink_of()
    await sink.write(
        messages(
            {"id": 1, "ware": "tea", "cents": "12.50", "body": ["a", 1], "at": "2026-01-02T03:04:05Z"},
            {"id": 2, "body": "text"},
            {"id": 3, "ware": None, "cents": 7.5, "body": {"a": {"b": None}}},
        )
    )
    assert rows(database) == []
    await sink.flush({PLACE: 3})
    found = rows(database, "id, ware, cents::text, body, at IS NULL")
    assert found == [
        (1, "tea", "12.50", ["a", 1], False),
        (2, None, None, "text", True),
        (3, None, "7.5", {"a": {"b": None}}, True),
    ]
    assert await sink.positions([PLACE, OTHER]) == {PLACE: 3}


KINDS = {
    "numeric": [
        "12345678901234.56",
        "90071992547409.93",
        "0.1234567890123456",
        "0.12345678901234567890",
        "1e30",
        "-1.50",
    ],
    "numeric(20, 2)": ["12345678901234.56", "1.00"],
    "float8": ["0.1", "1e300", "123456789.12345678"],
    "text": ["0.12345678901234567890", "1.50", "12345678901234567890123"],
    "bigint": ["9007199254740993", "5.0", "-9223372036854775808"],
    "exact": ["12345678901234.56", "0.12345678901234567890"],
    "numeric[]": ["[12345678901234.56, 1, null]"],
    "jsonb": ['{"a": [0.12345678901234567890, 1e400]}', "1.50"],
    "text[]": ['["a b", "", "NULL", "q\\"\\\\", null]', "[[1.50, 2], [3, 4]]"],
    "bool": ["true"],
}


@pytest.mark.parametrize("mode", ["insert", "upsert", "apply_changes"])
async def test_numbers_have_all_digits_that_were_written(database, database_url, opened, mode):
    """Regression: 12345678901234.56 was 12345678901234.60 in a column of type numeric."""
    database.execute("CREATE DOMAIN exact AS numeric CHECK (value IS NOT NULL)")
    cells = [(kind, text) for kind, texts in KINDS.items() for text in texts]
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(cells))
    database.execute(f"CREATE TABLE numbers (id int PRIMARY KEY, {columns})")
    fields = ", ".join(f'"c{number}": {text}' for number, (_, text) in enumerate(cells))
    row = json_value(f'{{"id": 1, {fields}}}')
    where = {"mode": mode} if mode == "apply_changes" else {"mode": mode, "table": "public.numbers"}
    keys = {"key_columns": ["id"]} if mode == "upsert" else {}
    sink = await opened(PostgresSink(PostgresSinkSettings.model_validate({"url": database_url, **where, **keys})))
    change = {"op": "insert", "table": "public.numbers", "row": row, "old": None}
    await sink.write(messages(change if mode == "apply_changes" else row))
    await sink.flush({PLACE: 1})
    for number, (kind, text) in enumerate(cells):
        literal = text.replace("[", "{").replace("]", "}") if kind.endswith("[]") else text
        query = (
            f"SELECT c{number}::text, (%s::numeric)::{kind}::text FROM numbers"
            if kind == "bigint"
            else (f"SELECT c{number}::text, %s::{kind}::text FROM numbers")
        )
        found, expected = database.execute(query, [literal]).fetchone()
        assert found == expected, (kind, text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("timestamptz", 20_260_102), ("date", 20_260_102), ("timestamptz[]", [20_260_102]), ("bool", 1), ("int", 1.5),
        ("int", Number("4503599627370497.3")), ("float8", HugeNumber("1e400")), ("int", True), ("int[]", [1.5]),
        ("point", [1, 2]), ("inet", 5),
    ],
)  # fmt: skip
async def test_a_number_that_the_column_cannot_hold_is_refused(sink_of, database, kind, value):
    """PostgreSQL would read 20260102 as a day, 1 as true, and 1.5 as 2."""
    database.execute(f"CREATE TABLE other (id int, v {kind})")
    sink = await sink_of(table="public.other")
    with pytest.raises(InvalidRecord):
        await sink.write(messages({"id": 1, "v": value}))


@pytest.mark.parametrize("settings", [{}, {"mode": "upsert", "key_columns": ["id %s"]}], ids=["insert", "upsert"])
async def test_names_may_have_a_percent_sign(sink_of, database, settings):
    """Regression: such a column, which is a placeholder to the library, stopped the sink for good."""
    database.execute('CREATE SCHEMA "100 %"')
    database.execute('CREATE TABLE "100 %"."50 %b" ("id %s" int PRIMARY KEY, "discount %" int, "%(x)s" text)')
    sink = await sink_of(table="100 %.50 %b", offsets_table="100 %.of%s", **settings)
    await sink.write(messages({"id %s": 1, "discount %": 5, "%(x)s": "a %s"}, {"id %s": 2}))
    await sink.flush({PLACE: 2})
    found = database.execute('SELECT * FROM "100 %"."50 %b" ORDER BY 1').fetchall()
    assert found == [(1, 5, "a %s"), (2, None, None)]
    assert await sink.positions([PLACE]) == {PLACE: 2}


async def test_values_of_codecs_with_types_have_a_form_in_json(sink_of, database):
    """Avro and Arrow have more types than JSON."""
    sink = await sink_of()
    body = {"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "cents": Decimal("12.50"), "of": UUID(int=1), "raw": b"x"}
    await sink.write(messages({"id": 1, "body": body}, {"id": 2, "body": [body["cents"]]}, {"id": 3, "body": b"x"}))
    await sink.flush({PLACE: 3})
    as_json = {"at": "2026-01-02T03:04:05Z", "cents": "12.50", "of": str(UUID(int=1)), "raw": "eA=="}
    assert rows(database, "body") == [(as_json,), (["12.50"],), ("eA==",)]


async def test_columns_can_be_mapped(sink_of, database):
    sink = await sink_of(columns={"id": "order.id", "ware": "order.ware.name"})
    await sink.write(messages({"order": {"id": 7, "ware": {"name": "milk"}}, "more": 1}, {"order": {"id": 8}}))
    await sink.flush({PLACE: 2})
    assert rows(database, "id, ware") == [(7, "milk"), (8, None)]


async def test_a_row_with_the_same_key_is_replaced(sink_of, database):
    sink = await sink_of(mode="upsert", key_columns=["id"])
    await sink.write(messages({"id": 1, "ware": "tea", "cents": 1}, {"id": 1, "cents": 2}, {"id": 1}, {"id": 2}))
    await sink.flush({PLACE: 4})
    assert rows(database, "id, ware, cents::int") == [(1, "tea", 2), (2, None, None)]


@pytest.mark.parametrize(
    ("payload", "index", "message"),
    [
        ([1], 1, "the payload is a list; a row needs an object"),
        ({"id": 5, "wares": 1}, 1, "wares: no columns of public.orders"),
        ({}, 1, "no value for a column"),
        ({"id": 5, "ware": {}}, 1, "ware is an object, and the column has the type text"),
        ({"id": 5, "ware": [[1], [2, {"a": 3}]]}, 1, "ware contains an object, and the column has the type text"),
        ({"id": 5, "body": {"a": object()}}, 1, "body has no form in JSON"),
        ({"id": "five"}, None, "refuses the row: invalid input syntax"),
        ({"id": 1}, None, "refuses the row: duplicate key"),
        ({"ware": "tea"}, None, "refuses the row: null value in column"),
        ({"id": True}, None, 'refuses the row: column "id" is of type integer'),
        ({"id": 2**40}, None, "refuses the row: "),
        ({"id": 5, "ware": "a\0b"}, None, "refuses the row: "),
    ],
)
async def test_a_refused_row_leaves_the_earlier_ones(sink_of, database, payload, index, message):
    sink = await sink_of()
    await sink.write(messages({"id": 1}))
    with pytest.raises(InvalidRecord, match=message) as caught:
        await sink.write(messages({"id": 2}, payload, first=1))
    assert caught.value.index == index
    await sink.write(messages({"id": 3}, first=3))
    await sink.flush({PLACE: 4})
    assert rows(database) == [(1,), (3,)]


async def test_a_lost_connection_undoes_what_is_not_flushed(sink_of, database):
    sink = await sink_of()
    await sink.write(messages({"id": 0}))
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'headrace sink' AND datname = current_database()"
    )
    with pytest.raises(Unavailable):
        await sink.flush({PLACE: 1})
    assert await sink.positions([PLACE]) == {}
    await sink.write(messages({"id": 0}))
    await sink.flush({PLACE: 1})
    assert rows(database) == [(0,)]


async def test_a_connection_that_is_lost_at_a_refused_row_undoes_what_is_not_flushed(sink_of, database, monkeypatch):
    """The return to the savepoint fails then, and psycopg raises the refusal all the same."""
    connect, made = psycopg.AsyncConnection.connect, []

    async def recorded(*args, **settings):
        made.append(await connect(*args, **settings))
        return made[-1]

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", recorded)
    sink = await sink_of()
    await sink.write(messages({"id": 0}))
    with pytest.raises(InvalidRecord):
        await sink.write(messages({"id": "one"}, first=1))
    await made[-1].close()
    with pytest.raises(Unavailable, match="the connection was lost"):
        await sink.write(messages({"id": 2}, first=2))
    assert rows(database) == []
    await sink.write(messages({"id": 0}))
    await sink.write(messages({"id": 2}, first=2))
    await sink.flush({PLACE: 3})
    assert rows(database) == [(0,), (2,)]
    assert await sink.positions([PLACE]) == {PLACE: 3}


async def test_two_sinks_have_offsets_of_their_own(sink_of, database):
    first, second = await sink_of(), await sink_of(offsets_name="second")
    await first.write(messages({"id": 0}))
    await first.flush({PLACE: 1})
    assert await second.positions([PLACE]) == {}
    assert database.execute("SELECT sink, next_offset::int FROM headrace_offsets").fetchall() == [("public.orders", 1)]


async def test_a_table_or_column_that_is_missing_is_named(sink_of):
    with pytest.raises(ConnectorError, match=r"there is no table public\.missing"):
        await sink_of(table="public.missing")
    with pytest.raises(ConnectorError, match=r"public\.orders has no column wares; it has id, ware"):
        await sink_of(columns={"id": "id", "wares": "x"})


async def test_a_table_that_disappears_is_no_fault_of_a_row(sink_of, database):
    sink = await sink_of()
    database.execute("DROP TABLE orders")
    with pytest.raises(ConnectorError, match=r"writing to public\.orders") as caught:
        await sink.write(messages({"id": 1}))
    assert not isinstance(caught.value, InvalidRecord)
    assert isinstance(caught.value.__cause__, psycopg.Error)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "upsert"}, "belong together"),
        ({"key_columns": ["id"]}, "belong together"),
        ({"mode": "upsert", "key_columns": ["id"], "columns": {"ware": "w"}}, "columns does not fill"),
        ({"table": "orders"}, "write schema.table"),
        ({"columns": {"id": "a..b"}}, "is not a path"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PostgresSinkSettings.model_validate({"url": "postgresql:///x", "table": "public.orders", **settings})
