"""Cases of the sinks that come with Headrace."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
from aiohttp import web
from deltalake import DeltaTable

from headrace_connectors.conformance import SinkCase
from tests.ports import free_port

CHOICE: Mapping[str, Any] = {"table_field": "kind", "tables": ["odd", "even"]}


def in_table(number: int) -> Any:
    """A payload that names its table."""
    return {"id": number, "kind": ("even", "odd")[number % 2]}


def ids_of(paths: Iterable[Path]) -> list[int]:
    """The column `id` of Parquet files."""
    return [number for path in paths for number in pq.read_table(path, partitioning=None).column("id").to_pylist()]


class StdoutCase(SinkCase):
    name = "stdout"

    def __init__(self) -> None:
        self._output = io.StringIO()
        self._redirection = contextlib.redirect_stdout(self._output)

    def invalid_payload(self) -> Any:
        return object()

    async def prepare(self) -> None:
        self._redirection.__enter__()

    async def clean(self) -> None:
        self._redirection.__exit__(None, None, None)

    async def written(self) -> Sequence[int]:
        return [json.loads(line)["payload"]["id"] for line in self._output.getvalue().splitlines()]


class HttpCase(SinkCase):
    """A server that keeps what it gets, and refuses negative numbers."""

    name = "http"

    def __init__(self) -> None:
        self._port = free_port()
        self._found: list[int] = []
        self._runner: web.AppRunner | None = None

    def settings(self) -> Mapping[str, Any]:
        return {"url": f"http://127.0.0.1:{self._port}/", "token": "a-token"}

    def invalid_payload(self) -> Any:
        return {"id": -1}

    async def prepare(self) -> None:
        async def take(request: web.Request) -> web.Response:
            numbers = [one["id"] for one in await request.json()]
            if min(numbers) < 0:
                return web.Response(status=422, text="a number is negative")
            self._found += numbers
            return web.Response()

        application = web.Application()
        application.router.add_post("/", take)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def clean(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def written(self) -> Sequence[int]:
        return self._found


class ParquetCase(SinkCase):
    name = "parquet"

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="headrace-conformance-"))

    def settings(self) -> Mapping[str, Any]:
        return {"path": str(self._path), "columns": {"id": "int64"}}

    def invalid_payload(self) -> Any:
        return {"id": "five"}

    async def clean(self) -> None:
        shutil.rmtree(self._path)

    async def written(self) -> Sequence[int]:
        return ids_of(self._path.glob("*/*/*/*.parquet"))


class ParquetTablesCase(ParquetCase):
    """Odd and even numbers are in two tables."""

    def settings(self) -> Mapping[str, Any]:
        return {**super().settings(), **CHOICE}

    def payload(self, number: int) -> Any:
        return in_table(number)

    def invalid_payload(self) -> Any:
        return {"id": 5, "kind": "unknown"}

    async def written(self) -> Sequence[int]:
        return ids_of(self._path.glob("*/*/*/*/*.parquet"))


class PostgresSinkCase(SinkCase):
    """A table without a key that would hide a repetition."""

    name = "postgres"

    def __init__(self, database: psycopg.Connection, url: str) -> None:
        self._database = database
        self._url = url

    def settings(self) -> Mapping[str, Any]:
        return {"url": self._url, "table": "public.rows"}

    def invalid_payload(self) -> Any:
        return {"id": "five"}

    async def prepare(self) -> None:
        self._database.execute("CREATE TABLE rows (id int)")

    async def written(self) -> Sequence[int]:
        return [row[0] for row in self._database.execute("SELECT id FROM rows").fetchall()]


class SqliteCase(SinkCase):
    """A table without a key that would hide a repetition."""

    name = "sqlite"

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-conformance-"))
        self._path = self._directory / "rows.db"

    def settings(self) -> Mapping[str, Any]:
        return {"path": str(self._path), "table": "rows"}

    def invalid_payload(self) -> Any:
        return {"id": -1}

    async def prepare(self) -> None:
        with contextlib.closing(sqlite3.connect(self._path)) as database:
            database.execute("CREATE TABLE rows (id INTEGER CHECK (id >= 0))")

    async def clean(self) -> None:
        shutil.rmtree(self._directory)

    async def written(self) -> Sequence[int]:
        with contextlib.closing(sqlite3.connect(self._path)) as database:
            return [row[0] for row in database.execute("SELECT id FROM rows")]


class DeltaCase(SinkCase):
    name = "delta"

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="headrace-conformance-"))

    def settings(self) -> Mapping[str, Any]:
        return {"path": str(self._path / "table"), "columns": {"id": "int64"}}

    def invalid_payload(self) -> Any:
        return {"id": "five"}

    async def clean(self) -> None:
        shutil.rmtree(self._path)

    async def written(self) -> Sequence[int]:
        return DeltaTable(str(self._path / "table")).to_pyarrow_table(columns=["id"])["id"].to_pylist()


class DeltaTablesCase(DeltaCase):
    """Odd and even numbers are in two tables."""

    def settings(self) -> Mapping[str, Any]:
        return {**super().settings(), **CHOICE}

    def payload(self, number: int) -> Any:
        return in_table(number)

    def invalid_payload(self) -> Any:
        return {"id": 5, "kind": "unknown"}

    async def written(self) -> Sequence[int]:
        found: list[int] = []
        for name in CHOICE["tables"]:
            table = DeltaTable(str(self._path / "table" / name))
            found += table.to_pyarrow_table(columns=["id"])["id"].to_pylist()
        return found
