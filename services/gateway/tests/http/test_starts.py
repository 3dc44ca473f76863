"""Turns of the loop: many requests of one user delay no other user."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from aiohttp import web

from headrace_chassis.starts import STARTS_MAX, Starts


async def test_few_requests_of_one_user_start_before_those_of_another() -> None:
    """SHARD-12: requests of one user start in order, a few in each turn, and another user's among the first."""
    starts, started = Starts(), list[tuple[str, int]]()

    async def request(user: str, number: int) -> None:
        await starts.take(user)
        started.append((user, number))

    many = [request("hostile", number) for number in range(100)]
    await asyncio.gather(*many, request("victim", 0))
    assert started.index(("victim", 0)) == STARTS_MAX
    assert [number for user, number in started if user == "hostile"] == list(range(100))


async def test_a_request_whose_caller_has_gone_takes_no_turn() -> None:
    """A cancelled request leaves its turn to the next one."""
    starts = Starts()
    waiting = [asyncio.ensure_future(starts.take("user")) for _ in range(3 * STARTS_MAX)]
    await asyncio.sleep(0)
    for gone in waiting[STARTS_MAX : 2 * STARTS_MAX]:
        gone.cancel()
    done, pending = await asyncio.wait(waiting, timeout=10)
    assert not pending
    assert sum(not one.cancelled() for one in done) == 2 * STARTS_MAX


async def test_requests_of_a_user_with_many_connections_start_after_few(application: Any, sessions: Any) -> None:
    """Regression: 64 connections of one user had 64 requests each time before one of another user started."""
    order: list[int] = []
    answer = sessions.call

    async def call(user_id: int, code: int, payload: bytes = b"", **more: Any) -> Any:
        order.append(user_id)
        return await answer(user_id, code, payload, **more)

    sessions.call = call
    sessions.gate.set()
    runner = web.AppRunner(application.build())
    await runner.setup()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        users = [1] * 64 + [2]
        connections = [await asyncio.open_connection(host, port) for _ in users]
        for user, (_, writer) in zip(users, connections, strict=True):
            stack.callback(writer.close)
            # Written at once, so that all arrive within one turn of the loop.
            writer.write(f"GET /streams HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {user}\r\n\r\n".encode())
        async with asyncio.timeout(20):
            for reader, _ in connections:
                await reader.readuntil(b"\r\n")
    assert len(order) == len(users)
    assert order.index(2) < 32, order
