"""CON-24: a webhook that gets more than the server stores."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

import headrace
from tests.connectors.process import Connectors
from tests.ports import free_port
from tests.sdk.proxy import Proxy

CALLERS = 150
BODY_BYTES = 40_000
MAX_WAITING_BYTES = 2 * 2**20
GROWTH_BYTES_MAX = 64 * 2**20
"""Waiting requests, what is decoded and sent of them, and the buffers of all connections."""


def resident_bytes(process: int) -> int:
    """Memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1])
    return pages * 4096


class Flood:
    """Callers that send without a pause, and send again what was refused, until their time is over."""

    def __init__(self, url: str, process: int) -> None:
        self._url = url
        self._process = process
        self.stored: set[str] = set()
        """Records that were acknowledged."""
        self.answers: Counter[int] = Counter()
        self.sent_bytes = 0
        self.resident_max = 0

    async def run(self, proxy: Proxy) -> None:
        """Send while the server is slow, out of reach, and slow again, until each has happened."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            callers = [asyncio.create_task(self._call(session, number)) for number in range(CALLERS)]
            await self._until(lambda: self.answers[200] >= 20)
            proxy.delay_seconds = 0.05
            await self._until(lambda: self.answers[429] >= 300 and self.answers[200] >= 60)
            proxy.stall()
            await self._until(lambda: self.answers[503] >= 20)
            proxy.stall(is_stalled=False)
            proxy.delay_seconds = 0.0
            seen = self.answers[200]
            await self._until(lambda: self.answers[200] >= seen + 20)
            for caller in callers:
                caller.cancel()
            await asyncio.wait(callers)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():
                self.resident_max = max(self.resident_max, resident_bytes(self._process))
                await asyncio.sleep(0.02)

    async def _call(self, session: aiohttp.ClientSession, caller: int) -> None:
        filler = "x" * BODY_BYTES
        for number in range(10**9):
            name = f"{caller}/{number}"
            body = json.dumps({"name": name, "filler": filler}).encode()
            status = 0
            while status != 200:
                self.sent_bytes += len(body)
                headers = {"Content-Type": "application/json", "Idempotency-Key": name}
                try:
                    async with session.post(self._url, data=body, headers=headers) as response:
                        status = response.status
                        if status != 200:
                            assert response.headers["Retry-After"] == "1"
                except aiohttp.ClientConnectionError:
                    # A refusal does not wait for the body, and the connection may be closed while it is sent.
                    status = 0
                self.answers[status] += 1
                await asyncio.sleep(0)
            self.stored.add(name)


@pytest.mark.timeout(400)
def test_a_flood_is_refused_and_nothing_acknowledged_is_lost(
    client: headrace.Client, connectors: Connectors, proxy: Proxy, stream: str
) -> None:
    """Memory is bounded, callers are answered 429 or 503 with Retry-After, and what was answered 200 is stored."""
    port = free_port()
    connectors.run(
        f'[sources.a]\nplugin = "webhook"\nstream = "{stream}"\ntopic = "t"\n[sources.a.settings]\n'
        f'address = "127.0.0.1:{port}"\nmax_waiting = "{MAX_WAITING_BYTES // 1024} KiB"\nbatch_size = 20\n'
        '[sources.a.delivery]\nbackoff_min = "5 ms"\nbackoff_max = "50 ms"\ntimeout = "1 s"\n'
    )
    connectors.becomes("a", "running")
    before = resident_bytes(connectors.pid)
    flood = Flood(f"http://127.0.0.1:{port}/", connectors.pid)
    asyncio.run(flood.run(proxy))
    growth = flood.resident_max - before
    sys.stdout.write(f"{dict(flood.answers)}, {flood.sent_bytes >> 20} MiB sent, {growth >> 20} MiB more memory\n")
    assert set(flood.answers) - {0} == {200, 429, 503}
    assert flood.sent_bytes > 4 * MAX_WAITING_BYTES
    assert growth < GROWTH_BYTES_MAX

    stored = {json.loads(message.payload)["name"] for message in client.read(stream, "t", count=10**6)}
    assert flood.stored <= stored
