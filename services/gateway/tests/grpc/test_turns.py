"""Turns over gRPC: streams of one user leave the event loop to others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, cast

from grpc import aio

from headrace_chassis.grpc.places import Places
from headrace_chassis.grpc.unauthenticated import UnauthenticatedCalls
from headrace_gateway.access.proxies import Proxies
from headrace_gateway.config import ProxyConfig
from headrace_gateway.grpc.authentication import Identity
from headrace_gateway.grpc.calls import Calls
from headrace_gateway.grpc.memory import Memory
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1 import subscriptions_pb2

STREAMS = 50
RESPONSES = 40
SERVICE = subscriptions_pb2.DESCRIPTOR.services_by_name["Subscriptions"]
WATCH = f"/{SERVICE.full_name}/Watch"


class Numbered:
    """Callers whose token is the number of their user."""

    audit = None

    async def identify(self, text: str, _address: str) -> Identity:
        return Identity(int(text))

    def verify(self, _identity: Identity) -> None:
        """Every token stays valid."""


class Endless:
    """Streams that always have another response."""

    def __init__(self) -> None:
        self.count = Counter[int]()
        self.is_over = False

    async def watch(self, _request: v1.WatchRequest, caller: Any) -> AsyncIterator[v1.WatchResponse]:
        while not self.is_over:
            self.count[caller.user_id] += 1
            yield v1.WatchResponse()

    async def consume(self, _requests: object, _caller: object) -> AsyncIterator[v1.ConsumeResponse]:
        raise NotImplementedError
        yield v1.ConsumeResponse()


async def test_streams_of_one_user_leave_the_loop_to_another() -> None:
    """Regression: each of 50 streams of one user had a response in each pass of the loop, and another user one."""
    endless, config = Endless(), ProxyConfig()
    calls = Calls(
        cast("Any", None),
        cast("Any", Numbered()),
        Memory(256 << 20),
        UnauthenticatedCalls(),
        Places(1000, "grpc.max_connections"),
        Proxies(config),
        request_bytes_max=64 << 10,
        count_max=1000,
    )
    async with AsyncExitStack() as stack:
        server = aio.server()
        stack.push_async_callback(server.stop, 0)
        server.add_generic_rpc_handlers((calls.handler_of(SERVICE, endless),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = await stack.enter_async_context(aio.insecure_channel(f"127.0.0.1:{port}"))

        def watched(user: int) -> Any:
            watch = channel.unary_stream(WATCH, response_deserializer=v1.WatchResponse.FromString)
            return aiter(watch(v1.WatchRequest().SerializeToString(), metadata=(("authorization", f"Bearer {user}"),)))

        async def read(call: Any) -> None:
            async for _ in call:
                pass

        streams = [watched(1) for _ in range(STREAMS)]
        for stream in streams:
            await anext(stream)
        readers = [asyncio.create_task(read(stream)) for stream in streams]
        other = watched(2)
        await anext(other)
        before = endless.count.copy()
        for _ in range(RESPONSES):
            await anext(other)
        found = endless.count - before
        endless.is_over = True
        await asyncio.gather(*readers, read(other))
    # Both as the server counted them: on a busy machine it is ahead of what the other user has read.
    assert found[1] < STREAMS * found[2] // 2, found
