"""Cases of the sources that come with Headrace."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import psycopg

from headrace_connectors.conformance import SourceCase
from tests.ports import free_port


class RandomCase(SourceCase):
    name = "random"

    def settings(self) -> Mapping[str, Any]:
        return {"interval": "1 ms", "batch_size": 3}

    async def feed(self, count: int) -> None:
        """Records are made up."""


class WebhookCase(SourceCase):
    """Callers that send again until they are answered 200."""

    name = "webhook"

    def __init__(self) -> None:
        self.port = free_port()
        self._fed = 0
        self._callers: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession | None = None

    def settings(self) -> Mapping[str, Any]:
        return {"address": f"127.0.0.1:{self.port}"}

    async def prepare(self) -> None:
        self._session = aiohttp.ClientSession()

    async def clean(self) -> None:
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        # Connections that were accepted while a source was closing end when the loop sees that their callers are gone.
        while any(
            one.laddr.port == self.port for one in psutil.Process().net_connections("tcp") if one.status != "LISTEN"
        ):
            await asyncio.sleep(0)

    async def feed(self, count: int) -> None:
        for number in range(self._fed, self._fed + count):
            self._callers.append(asyncio.create_task(self._call(number)))
        self._fed += count

    async def _call(self, number: int) -> None:
        assert self._session is not None
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                if await self.send(self._session, number):
                    return
            await asyncio.sleep(0.005)

    async def send(self, session: aiohttp.ClientSession, number: int) -> bool:
        """Send a record; return True if it is stored."""
        headers = {"Idempotency-Key": str(number)}
        async with session.post(f"http://127.0.0.1:{self.port}/", json={"id": number}, headers=headers) as answer:
            return answer.status == 200


class InfluxCase(WebhookCase):
    """Clients that write one point each; a point that is written again has the same id."""

    name = "influxdb"

    async def send(self, session: aiohttp.ClientSession, number: int) -> bool:
        body = f"orders id={number}i {1_700_000_000_000_000_000 + number}"
        async with session.post(f"http://127.0.0.1:{self.port}/write?db=shop", data=body) as answer:
            return answer.status == 204


class FilesCase(SourceCase):
    """A new file with each call."""

    name = "files"

    def __init__(self, way: Mapping[str, Any]) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-conformance-"))
        self._way = way
        self._files = itertools.count()
        self._numbers = itertools.count()

    def settings(self) -> Mapping[str, Any]:
        own = {"paths": [f"{self._directory}/*.log"], "poll_interval": "1 ms", "complete_after": "10 ms"}
        return {**own, "format": "json_lines", "batch_size": 2, **self._way}

    async def clean(self) -> None:
        shutil.rmtree(self._directory)

    async def feed(self, count: int) -> None:
        file = self._directory / f"{next(self._files)}.log"
        text = "".join(f'{{"id": {number}}}\n' for number in itertools.islice(self._numbers, count))
        # Under another name at first: a file is not seen before it is complete.
        file.with_suffix(".new").write_text(text, encoding="utf-8")
        file.with_suffix(".new").rename(file)

    async def kept(self) -> int | None:
        if "delete_after_read" not in self._way:
            return None
        return sum(len(path.read_bytes().splitlines()) for path in self._directory.glob("*.log"))


class PostgresCase(SourceCase):
    """Rows of a table, of which a commit leaves nothing, a mark, or everything."""

    name = "postgres"

    def __init__(self, database: psycopg.Connection, url: str, way: Mapping[str, Any]) -> None:
        self._database = database
        self._url = url
        self._way = way

    def settings(self) -> Mapping[str, Any]:
        return {"url": self._url, "table": "public.rows", "batch_size": 4, "poll_interval": "1 ms", **self._way}

    async def prepare(self) -> None:
        self._database.execute("CREATE TABLE rows (id serial PRIMARY KEY, is_read boolean)")

    async def feed(self, count: int) -> None:
        self._database.execute("INSERT INTO rows (is_read) SELECT false FROM generate_series(1, %s)", (count,))

    async def kept(self) -> int | None:
        if "cursor_column" in self._way:
            return None
        row = self._database.execute("SELECT count(*) FROM rows WHERE NOT is_read").fetchone()
        assert row is not None
        return int(row[0])


class CdcCase(SourceCase):
    """Changes of a table; the position of the slot shows what the server keeps."""

    name = "postgres_cdc"

    def __init__(self, database: psycopg.Connection, url: str, way: Mapping[str, Any]) -> None:
        self._database = database
        self._url = url
        self._way = way
        self._positions: list[str] = []

    def settings(self) -> Mapping[str, Any]:
        return {
            "url": self._url,
            "slot": f"slot_{self._database.info.dbname}",
            "tables": ["public.rows"],
            "poll_interval": "1 ms",
            **self._way,
        }

    async def prepare(self) -> None:
        self._database.execute("CREATE TABLE rows (id serial PRIMARY KEY)")
        if self._way["snapshot"] == "never":
            # Only what is written after the slot was made is read.
            source = self.create()
            await source.open(None)
            await source.close()

    async def feed(self, count: int) -> None:
        row = self._database.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        self._database.execute("INSERT INTO rows SELECT nextval('rows_id_seq') FROM generate_series(1, %s)", (count,))
        self._positions += [row[0]] * count

    async def kept(self) -> int | None:
        if self._way["snapshot"] == "initial":
            return None
        row = self._database.execute(
            "SELECT count(*) FROM unnest(%s::pg_lsn[]) AS before, pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn <= before",
            (self._positions, self.settings()["slot"]),
        ).fetchone()
        assert row is not None
        return int(row[0])
