"""Callers of an HTTP server, each with one request after the other: `python -m tests.performance.loads.http_callers`.

They send bytes that are ready, and look at the status and the length of answers alone: the cores are for the server.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

from tests.performance.loads.client_process import Clock

_CALLERS = 64
_CONNECT_SECONDS = 30.0
_ADDRESS = re.compile(rb"\r\nHost: ([0-9.]+):([0-9]+)\r\n")
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)\r\n", re.IGNORECASE)


async def _connected(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection(address, port)
        except ConnectionRefusedError:
            # It does not listen yet.
            await asyncio.sleep(0.01)


async def _call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, count: int) -> None:
    for _ in range(count):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 2"):
            raise AssertionError(head.decode())
        if (length := _LENGTH.search(head)) is not None:
            await reader.readexactly(int(length[1]))


async def _seconds(request: bytes, requests: int) -> float:
    found = _ADDRESS.search(request)
    assert found is not None, "the request has no header Host with an address and a port"
    callers = min(_CALLERS, requests)
    async with asyncio.timeout(_CONNECT_SECONDS):
        connections = [await _connected(found[1].decode(), int(found[2])) for _ in range(callers)]
    clock = Clock()
    shares = [requests // callers + (number < requests % callers) for number in range(callers)]
    async with asyncio.TaskGroup() as group:
        for (reader, writer), share in zip(connections, shares, strict=True):
            group.create_task(_call(reader, writer, request, share))
    return clock.result(requests).seconds


if __name__ == "__main__":
    seconds = asyncio.run(_seconds(Path(sys.argv[1]).read_bytes(), int(sys.argv[2])))
    sys.stdout.write(json.dumps({"seconds": seconds}))
