"""Answers of a process with connectors, as the gateway reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from headrace_gateway.connectors import client
from headrace_gateway.connectors.client import ConnectorsClient
from headrace_gateway.connectors.config import ConnectorsConfig
from headrace_gateway.json_api.errors import Rejected

MANY = [{"key": f"connector-{number}", "state": "running", "text": "x" * 100} for number in range(5000)]


@asynccontextmanager
async def process(answer: Any) -> AsyncIterator[str]:
    """Yield the address of a process that answers every request in chunks."""
    encoded = msgspec.json.encode(answer)

    async def serve(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for begin in range(0, len(encoded), 10_000):
            await response.write(encoded[begin : begin + 10_000])
        await response.write_eof()
        return response

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def test_an_answer_of_many_chunks_is_read_to_its_end() -> None:
    async with process(MANY) as address:
        connectors = ConnectorsClient(ConnectorsConfig(url=address))
        async with connectors.connected():
            assert await connectors.ask("GET", "connectors") == MANY
            assert await connectors.ask("POST", "connectors", "connector-1", "restart") == MANY


async def test_the_process_that_runs_a_connector_is_found_by_an_answer_of_many_chunks() -> None:
    """The standby answers with few bytes; a truncated answer of the other one would rank behind it."""
    running = {"key": "a", "state": "running", "history": MANY}
    async with process({"key": "a", "state": "standby"}) as standby, process(running) as runs:
        connectors = ConnectorsClient(ConnectorsConfig(url=f"{standby},{runs}"))
        async with connectors.connected():
            assert await connectors.ask("GET", "connectors", "a") == running


async def test_an_answer_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ANSWER_BYTES_MAX", 100_000)
    async with process(MANY) as address:
        connectors = ConnectorsClient(ConnectorsConfig(url=address))
        async with connectors.connected():
            with pytest.raises(Rejected, match="more than 100000 bytes") as refusal:
                await connectors.ask("GET", "connectors")
    assert refusal.value.http_status == 502
