"""Log lines of requests (USE-6)."""

from __future__ import annotations

import json
import secrets

import pytest

from tests.apis.collector import collecting
from tests.apis.http.conftest import Reach
from tests.conftest import StartServer


@pytest.mark.long
async def test_records_are_json_with_the_id_of_the_request(start_server: StartServer, reach: Reach) -> None:
    async with collecting() as collector:
        server = start_server(
            {
                "HTTP_ACCESS_LOG": "true",
                "SYSTEM_LOGGING_FORMAT": "json",
                "TRACING_ENABLED": "true",
                "TRACING_ENDPOINT": collector.endpoint,
                "TRACING_SAMPLE_RATIO": "0",
            }
        )
        root = await reach(server).login()
        trace_id = secrets.token_hex(16)
        traced = {"X-Request-Id": "order-7", "traceparent": f"00-{trace_id}-{secrets.token_hex(8)}-01"}
        await root.ok("GET", "/streams", headers=traced)
        await root.ok("GET", "/streams", headers={"X-Request-Id": "order-8"})
        server.stop()
    lines = [json.loads(line) for line in server.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    asked = {line.get("request_id"): line for line in lines if line["event"] == "GET /streams 200"}
    assert asked["order-7"]["trace_id"] == trace_id
    assert "trace_id" not in asked["order-8"]
    assert all({"event", "level", "logger", "timestamp"} <= set(line) for line in lines)
