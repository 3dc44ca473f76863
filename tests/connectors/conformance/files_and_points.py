"""Cases of the sources `files` and `influxdb`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from headrace_connectors.conformance import SourceCase
from tests.ports import free_port


class FilesCase(SourceCase):
    """A log file that grows."""

    name = "files"

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="headrace-files-")
        self.root = Path(self._directory.name)
        self._fed = 0

    def settings(self) -> Mapping[str, Any]:
        return {"paths": [str(self.root / "*")], "batch_size": 4, "poll_interval": "1 ms"}

    async def clean(self) -> None:
        self._directory.cleanup()

    async def feed(self, count: int) -> None:
        with (self.root / "a.log").open("a", encoding="utf-8") as file:
            file.writelines(f"{number}\n" for number in range(self._fed, self._fed + count))
        self._fed += count


class DeletedFilesCase(FilesCase):
    """Files of one line, which are deleted when they are stored."""

    def settings(self) -> Mapping[str, Any]:
        return {**super().settings(), "delete_after_read": True}

    async def feed(self, count: int) -> None:
        for number in range(self._fed, self._fed + count):
            file = self.root / f"{number:04}"
            file.write_text("line\n", encoding="utf-8")
            # Old enough to be complete.
            os.utime(file, (0, 0))
        self._fed += count

    async def kept(self) -> int | None:
        return len(list(self.root.iterdir()))


class InfluxCase(SourceCase):
    """Clients that send a point again until they are answered 204."""

    name = "influxdb"

    def __init__(self) -> None:
        self._port = free_port()
        self._fed = 0
        self._callers: list[asyncio.Task[None]] = []
        self._session: aiohttp.ClientSession | None = None

    def settings(self) -> Mapping[str, Any]:
        return {"address": f"127.0.0.1:{self._port}"}

    async def prepare(self) -> None:
        self._session = aiohttp.ClientSession()

    async def clean(self) -> None:
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def feed(self, count: int) -> None:
        for number in range(self._fed, self._fed + count):
            self._callers.append(asyncio.create_task(self._call(number)))
        self._fed += count

    async def _call(self, number: int) -> None:
        assert self._session is not None
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                url = f"http://127.0.0.1:{self._port}/api/v2/write?bucket=b"
                async with self._session.post(url, data=f"m n={number}i {number}") as answer:
                    if answer.status == 204:
                        return
            await asyncio.sleep(0.005)
