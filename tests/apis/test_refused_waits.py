"""Consumers of the SDK whose waits the server refuses."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

import headrace
import headrace.aio
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.server_process import PASSWORD, USERNAME

SECONDS = 45


@pytest.mark.long
def test_refusals_are_logged(start_server: StartServer, caplog: pytest.LogCaptureFixture) -> None:
    """Regression: `poll` returned None, without an exception and a line in the log, although there were messages."""
    server = start_server({"WAIT_MAX_PARTITIONS": "2", "SYSTEM_SHARDING_CPU_ALLOCATION": "1"})
    with RawConnection.as_root(server.address) as root:
        root.create_topic("many", "t", 3)
        root.send("many", "t", 0, b"unread")
    address = f"headrace://{USERNAME}:{PASSWORD}@{server.address}"
    caplog.set_level(logging.WARNING, "headrace")

    async def polls() -> None:
        async with headrace.aio.connect(address) as client, client.consumer("many", "t") as consumer:
            assert await consumer.poll(timeout=SECONDS) is None

    asynchronous = threading.Thread(target=asyncio.run, args=(polls(),))
    asynchronous.start()
    with headrace.connect(address) as client, client.consumer("many", "t") as consumer:
        assert consumer.poll(timeout=SECONDS) is None
    asynchronous.join()
    warnings = [record for record in caplog.records if "TooManyWaits" in record.getMessage()]
    assert len({record.thread for record in warnings}) == 2, "of both clients"
    assert all("reading is tried again" in record.getMessage() for record in warnings)
