"""Limits of unauthenticated gRPC calls."""

import asyncio

import pytest

from headrace_chassis.grpc.status import Refused
from headrace_chassis.grpc.unauthenticated import REQUEST_BYTES_MAX, UnauthenticatedCalls


async def sent(*requests):
    for request in requests:
        yield request


async def silence():
    await asyncio.Event().wait()
    yield b"never"


async def received(unauthenticated, encoded):
    return [one async for one in unauthenticated.requests(encoded)]


async def test_what_comes_is_received():
    unauthenticated = UnauthenticatedCalls()
    assert await received(unauthenticated, sent(b"one", b"two")) == [b"one", b"two"]
    assert unauthenticated.count == 0


async def test_who_waits_the_longest_gives_way():
    """Any number of silent callers cannot block one that sends, and they hold no more calls than there are places."""
    unauthenticated = UnauthenticatedCalls(places=3, seconds=60)
    silent = [asyncio.create_task(received(unauthenticated, silence())) for _ in range(3)]
    await asyncio.sleep(0)
    assert unauthenticated.count == 3
    assert await received(unauthenticated, sent(b"login")) == [b"login"]
    with pytest.raises(Refused, match="timed out waiting"):
        await asyncio.wait_for(silent[0], 5)
    late = [asyncio.create_task(received(unauthenticated, silence())) for _ in range(50)]
    await asyncio.sleep(0)
    assert unauthenticated.count <= 3
    for task in (*silent[1:], *late):
        task.cancel()
    await asyncio.gather(*silent, *late, return_exceptions=True)
    assert unauthenticated.count == 0


async def test_no_caller_waits_for_ever():
    unauthenticated = UnauthenticatedCalls(seconds=0.01)
    with pytest.raises(Refused, match="timed out waiting"):
        await received(unauthenticated, silence())


async def test_requests_are_small():
    unauthenticated = UnauthenticatedCalls()
    assert await received(unauthenticated, sent(bytes(REQUEST_BYTES_MAX)))
    with pytest.raises(Refused, match="4096 bytes"):
        await received(unauthenticated, sent(bytes(REQUEST_BYTES_MAX + 1)))


async def test_a_call_without_a_request_is_refused():
    with pytest.raises(Refused, match="no request"):
        await received(UnauthenticatedCalls(), sent())
