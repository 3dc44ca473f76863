"""Frames that a client of `/ws` does not take: counted as answers are, and the end of a client that takes nothing."""

import asyncio
import socket

import pytest
from aiohttp.http import WebSocketWriter

from headrace_gateway.json_api.memory import Budget
from headrace_gateway.push.connections.socket import TAKING_SECONDS, Socket

LARGE = bytes(2_000_000)


class Received:
    """The receiving side, which is not used here."""

    def __init__(self):
        self.ended = asyncio.Event()

    def discard(self):
        self.ended.set()


class Flow(asyncio.streams.FlowControlMixin, asyncio.Protocol):
    """Flow control as the writer needs it."""


@pytest.fixture
async def connected():
    """A socket of `/ws`, and the client's end of its connection, which takes little unless it is read."""
    there, here = socket.socketpair()
    for end in (there, here):
        end.settimeout(0)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    transport, protocol = await asyncio.get_running_loop().create_connection(Flow, sock=here)
    transport.set_write_buffer_limits(high=0)
    protocol.transport = transport
    with there:
        yield there, Socket(transport, WebSocketWriter(protocol, transport, limit=0), Received())
        transport.abort()


async def test_frames_that_are_not_taken_are_counted(connected):
    """Regression: connections that read nothing each held a frame of any size, of which nothing was counted."""
    there, ws = connected
    budget = Budget(5_000_000)
    ws.held = budget.held_by(1)
    sending = asyncio.create_task(ws.send_binary(LARGE))
    await asyncio.sleep(0)
    assert budget.used_bytes >= len(LARGE)
    while not sending.done():
        await asyncio.get_running_loop().sock_recv(there, 2**20)
    assert budget.used_bytes == 0
    with budget.held_by(1) as elsewhere:
        elsewhere.resize(1_000_000)
        await ws.send_binary(LARGE)
        assert ws.is_ending, "one user has half of the memory"


async def test_who_takes_nothing_is_disconnected(connected):
    there, ws = connected
    ws.write(bytes(200_000), is_binary=True)
    begun = ws.sent_at
    ws.look_after(begun)
    ws.look_after(begun + TAKING_SECONDS - 1)
    assert not ws.is_ending
    # The time counts from the last byte that was taken.
    await asyncio.get_running_loop().sock_recv(there, 100_000)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ws.look_after(begun + TAKING_SECONDS)
    assert not ws.is_ending
    ws.look_after(begun + 2 * TAKING_SECONDS)
    assert ws.is_ending
