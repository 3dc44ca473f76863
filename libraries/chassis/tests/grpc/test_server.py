"""Start and stop of the gRPC server."""

import asyncio
import gc
import logging
import sys
from typing import Any

import grpc
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


STREAMS = 64
CANCEL_STREAMS = """
import sys, threading, grpc
channel = grpc.insecure_channel(sys.argv[1])
method = channel.stream_stream("/a/b")
over = threading.Event()

def requests():
    yield b""
    over.wait()

calls = [method(requests()) for _ in range(int(sys.argv[2]))]
for call in calls:
    next(call)
for call in calls:
    call.cancel()
channel.close()
over.set()
"""


async def test_streams_that_end_during_writes_leave_no_traceback_in_the_log(caplog):
    """The library takes only some of the failures of these writes for what they are."""
    written = asyncio.Semaphore(0)

    async def write_without_end(_requests, context):
        try:
            while True:
                await context.write(bytes(100_000))
        finally:
            written.release()

    def add_services(server):
        method: Any = grpc.stream_stream_rpc_method_handler(write_without_end)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a", {"b": method}),))

    async with serving(Address.parse("127.0.0.1:0"), add_services, names=()) as served:
        for _ in range(4):
            client = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CANCEL_STREAMS, str(served.address), str(STREAMS)
            )
            assert await client.wait() == 0
            for _ in range(STREAMS):
                await written.acquire()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
