"""CON-14: a value of PostgreSQL arrives as the server has written it, or is refused.

Every type and its array, on every way out of a database and into every sink, alone and beside others, from a database
with settings that change the text of values. The bytes between source and sink are those of the codec.
"""

from __future__ import annotations

import datetime
import json
import sqlite3
from contextlib import asynccontextmanager, closing

import psycopg
import pyarrow.parquet as pq
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from deltalake import DeltaTable
from tests.connectors.standalone.changes import cdc_sources, polled
from tests.connectors.standalone.kinds import EACH, KINDS, ODD_SETTINGS, PREPARATION, Kind
from tests.connectors.standalone.received import PLACE, messages

from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.contract import Settings
from headrace_connectors.postgresql.connection import FORMS
from headrace_connectors.sinks.delta.settings import DeltaSettings
from headrace_connectors.sinks.delta.sink import DeltaSink
from headrace_connectors.sinks.http import HttpSink, HttpSinkSettings
from headrace_connectors.sinks.opensearch import OpenSearchSink, OpenSearchSinkSettings
from headrace_connectors.sinks.parquet.sink import ParquetSettings, ParquetSink
from headrace_connectors.sinks.postgres.settings import PostgresSinkSettings
from headrace_connectors.sinks.postgres.sink import PostgresSink
from headrace_connectors.sinks.sqlite.sink import SqliteSettings, SqliteSink
from headrace_connectors.sources.postgres.polling import PollingSettings, PostgresPolling

WAYS = {
    "streamed": {},
    "cursor": None,
    "snapshot": {"snapshot": "initial"},
    "functions": {"method": "functions"},
    "test_decoding": {"decoder": "test_decoding"},
}
SINKS = ("postgres", "parquet", "delta", "sqlite", "opensearch", "http")


class Table:
    """A table with a column of each type and one of its arrays, and a row for each value."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self.columns: dict[str, Kind] = {}
        for number, kind in enumerate(kinds):
            self.columns[f"c{number}"] = kind
            self.columns[f"a{number}"] = Kind(f"{kind.type}[]", ())
        self.definition = ", ".join(f"{name} {kind.type}" for name, kind in self.columns.items())
        self.rows_count = max(len(kind.values) for kind in kinds) + 1

    def fill(self, database: psycopg.Connection) -> None:
        for row in range(self.rows_count):
            values: list[object] = []
            for name, kind in self.columns.items():
                values_of = self.columns[f"c{name[1:]}"].values
                if kind.values:
                    values.append(kind.values[row] if row < len(kind.values) else None)
                else:
                    values.append([*values_of, None] if row == 0 else None)
            places = ", ".join(
                f"%s::{kind.type}" if kind.values else f"%s::text[]::{kind.type}" for kind in self.columns.values()
            )
            database.execute(f"INSERT INTO kept VALUES ({row}, {places})", values)

    def texts(self, database: psycopg.Connection, table: str) -> list[tuple[str | None, ...]]:
        # A cast to text changes some of them, such as addresses and blanks at the end.
        columns = ", ".join(
            f"CASE WHEN {name} IS DISTINCT FROM NULL THEN format('%s', {name}) END" for name in self.columns
        )
        return database.execute(f"SELECT {columns} FROM {table} ORDER BY id").fetchall()


@pytest.fixture
async def arrived(database, database_url, request):
    """Messages of the rows, as the codec has decoded them, by the way out of the database."""

    async def read(table: Table, way: str):
        for name, value in ODD_SETTINGS.items():
            literal = ", ".join(f"'{part}'" for part in value.split(", "))
            database.execute(f"ALTER DATABASE {database.info.dbname} SET {name} = {literal}")
        for name, value in {**FORMS, "timezone": "Asia/Kathmandu"}.items():
            database.execute(f"SET {name} = '{value}'")
        database.execute(PREPARATION)
        database.execute(f"CREATE TABLE kept (id int PRIMARY KEY, {table.definition})")
        database.execute("CREATE SCHEMA copy; CREATE TABLE copy.kept (LIKE public.kept INCLUDING ALL)")
        given = WAYS[way]
        if given is None:
            table.fill(database)
            settings = {"url": database_url, "table": "public.kept", "cursor_column": "id"}
            source = PostgresPolling(PollingSettings.model_validate(settings))
            await source.open(None)
            records = (await polled(source)).records
            await source.close()
        else:
            async with cdc_sources(database_url, tables=["public.kept"]) as opened:
                if given.get("snapshot"):
                    table.fill(database)
                source = await opened(**given)
                if not given.get("snapshot"):
                    with database.transaction():
                        table.fill(database)
                records = (await polled(source)).records
                await source.commit()
                if given.get("snapshot"):
                    # Its end, which closes the cursor.
                    await polled(source)
                    await source.commit()
        codec = JsonCodec(Settings())
        payloads = [codec.decode(codec.encode(record.payload)) for record in records]
        assert len(payloads) == table.rows_count
        return payloads

    return read


def rows_of(payloads):
    return [payload.get("row", payload) for payload in payloads]


@asynccontextmanager
async def documents():
    """A server that keeps the lines of requests as they are."""
    lines = []

    async def keep(request):
        given = (await request.read()).splitlines()
        lines.extend(given)
        items = [{"index": {"status": 201}} for _ in given[::2]]
        return web.json_response({"items": items})

    async def greet(request):
        return web.json_response({})

    application = web.Application()
    application.router.add_post("/{path:.*}", keep)
    application.router.add_get("/", greet)
    async with TestServer(application) as server:
        yield str(server.make_url("/")), lines


async def written(sink, batches):
    await sink.open()
    first = 0
    for batch in batches:
        await sink.write(messages(*batch, first=first))
        first += len(batch)
        await sink.flush({PLACE: first})
    await sink.close()


def values_of_json(text):
    """Value of a document, with numbers as their texts."""
    return json.loads(text, parse_float=str, parse_int=str)


def same(form: str, expected: str | None, found) -> bool:
    """Compare a value of JSON with a text of the server."""
    if expected is None or found is None:
        return expected is found
    match form:
        case "json":
            return found == values_of_json(expected)
        case "bool":
            return found is (expected == "t")
        case "number":
            return isinstance(found, str) and (found == expected or float(found) == float(expected))
    return found == expected


def cells(table: Table, texts, found, compare):
    """Name the cells that are other ones."""
    return [
        f"{kind.type}: {text!r} arrived as {row.get(name)!r}"
        for line, row in zip(texts, found, strict=True)
        for (name, kind), text in zip(table.columns.items(), line, strict=True)
        if not compare(kind, text, row.get(name))
    ]


async def wrong_cells(table, sink, database, url, payloads, place, *, alone):
    """Write payloads with a sink, and name the cells that it has otherwise."""
    texts = table.texts(database, "kept")
    rows = rows_of(payloads)
    batches = [[row] for row in rows] if alone else [rows]
    if sink == "postgres":
        is_change = "row" in payloads[0]
        mode = (
            {"mode": "apply_changes", "tables": {"public.kept": "copy.kept"}} if is_change else {"table": "copy.kept"}
        )
        batches = [[payload] for payload in payloads] if alone else [payloads]
        await written(PostgresSink(PostgresSinkSettings.model_validate({"url": url, **mode})), batches)
        copy = [dict(zip(table.columns, line, strict=True)) for line in table.texts(database, "copy.kept")]
        return cells(table, texts, copy, same_in_a_copy)
    if sink == "sqlite":
        with closing(sqlite3.connect(place / "a.db")) as file:
            file.execute(f"CREATE TABLE kept (id INTEGER, {', '.join(f'{name} TEXT' for name in table.columns)})")
            await written(SqliteSink(SqliteSettings(path=place / "a.db", table="kept")), batches)
            file.row_factory = sqlite3.Row
            found = [dict(row) for row in file.execute("SELECT * FROM kept ORDER BY id")]
        return cells(table, texts, found, same_in_text)
    if sink in ("parquet", "delta"):
        columns = {name: kind.column for name, kind in table.columns.items()}
        if sink == "parquet":
            await written(ParquetSink(ParquetSettings(path=place, columns=columns)), batches)
            found = [
                row
                for path in sorted(place.rglob("*.parquet"))
                for row in pq.read_table(path, partitioning=None).to_pylist()
            ]
        else:
            settings = DeltaSettings.model_validate({"path": str(place / "lake"), "columns": columns})
            await written(DeltaSink(settings), batches)
            found = DeltaTable(place / "lake").to_pyarrow_table().sort_by("_offset").to_pylist()
        return cells(table, texts, found, same_in_columns)
    async with documents() as (address, lines):
        if sink == "http":
            await written(HttpSink(HttpSinkSettings(url=address, format="json_lines")), batches)
        else:
            await written(OpenSearchSink(OpenSearchSinkSettings(url=address, index="a")), batches)
        found = [values_of_json(line) for line in (lines if sink == "http" else lines[1::2])]
    return cells(table, texts, found, lambda kind, text, value: same(kind.form, text, value))


def same_in_a_copy(kind, text, value):
    # The blanks of a column json are not kept.
    return text == value or (
        kind.type == "json" and None not in (text, value) and same("json", text, values_of_json(value))
    )


def same_in_text(kind, text, value):
    if kind.form == "json" and value is not None:
        # A string of JSON is a text.
        return value == values_of_json(text) or same("json", text, values_of_json(value))
    return value == {"t": "1", "f": "0"}[text] if kind.form == "bool" and text else same(kind.form, text, value)


def same_in_columns(kind, text, value):
    if kind.column == "timestamp" and text is not None:
        at = datetime.datetime.fromisoformat(text)
        return value == (at if at.tzinfo is not None else at.replace(tzinfo=datetime.UTC))
    if kind.column == "date" and text is not None:
        return value == datetime.date.fromisoformat(text)
    if kind.column == "json" and value is not None:
        value = values_of_json(value)
    if kind.column == "int64" and value is not None:
        value = str(value)
    return same(kind.form, text, value)


@pytest.mark.parametrize("way", ["streamed", "cursor"])
async def test_a_value_of_each_form_arrives_as_it_was_written(arrived, database, database_url, tmp_path, way):
    table = Table(EACH)
    payloads = await arrived(table, way)
    for sink in SINKS:
        (tmp_path / sink).mkdir()
        assert await wrong_cells(table, sink, database, database_url, payloads, tmp_path / sink, alone=False) == []


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
async def test_a_value_of_each_type_arrives_as_it_was_written(arrived, database, database_url, tmp_path, way):
    table = Table(KINDS)
    payloads = await arrived(table, way)
    wrong = []
    for alone in (False, True):
        for sink in SINKS:
            place = tmp_path / f"{sink} {alone}"
            place.mkdir()
            database.execute("TRUNCATE copy.kept; DROP TABLE IF EXISTS headrace_offsets")
            found = await wrong_cells(table, sink, database, database_url, payloads, place, alone=alone)
            wrong += [f"{sink}, {'alone' if alone else 'together'}: {cell}" for cell in found]
    assert wrong == []
