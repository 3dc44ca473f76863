"""Start and stop of the gRPC server."""

import asyncio
import gc
import logging

import pytest

from headrace_chassis.grpc.server import serving
from headrace_settings import Address


async def test_a_start_that_is_cancelled_half_way_stops_the_server_in_order(monkeypatch, caplog):
    """A signal can come between the library's start and its answer; its main loop must not fail then."""

    def cancel_during_start(server):
        start = server.start

        async def cancelled():
            # Runs when the library's start has begun to wait for its main loop, before the loop's first step.
            asyncio.get_running_loop().call_soon(task.cancel)
            await start()

        monkeypatch.setattr(server, "start", cancelled)

    async def serve():
        async with serving(Address.parse("127.0.0.1:0"), cancel_during_start, names=()):
            await asyncio.Event().wait()

    with caplog.at_level(logging.ERROR):
        task = asyncio.create_task(serve())
        with pytest.raises(asyncio.CancelledError):
            await task
        # Unretrieved failures of the library's tasks are logged when the tasks are deleted.
        gc.collect()
        await asyncio.sleep(0)
    assert not caplog.records
