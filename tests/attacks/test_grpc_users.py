"""Users who use the shared limits of gRPC and of waits to the full: what others notice over gRPC and in the SDK."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import grpc
import pytest

import headrace
import headrace.aio
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.attacks.background_latency import WAIT_SECONDS_MAX
from tests.attacks.test_users import HOSTILE, victim_of
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.server_process import ServerProcess

ROUNDS = 10
CALLS = 40
LIMITS = {"GRPC_MAX_CALLS": str(CALLS), "GRPC_MAX_STREAMS": str(CALLS), "GRPC_MAX_MEMORY": "256 MiB"}
LARGE = {"stream": v1.Identifier(name="data"), "topic": v1.Identifier(name="large")}
OWN = {"stream": v1.Identifier(name="data"), "topic": v1.Identifier(name="own")}


@contextmanager
def caller_of(server: ServerProcess, name: str) -> Iterator[GrpcCaller]:
    """A gRPC connection of a user."""
    with RawConnection.as_user(server.address, name, "password") as connection:
        token = access_token(connection, f"token-{time.monotonic_ns()}")
    with GrpcCaller(server.grpc_address, token) as caller:
        yield caller


def check(show: list[str], kinds: dict[str, Callable[[], None]]) -> None:
    """Make requests of each kind, and fail if two of a kind wait too long."""
    for name, ask in kinds.items():
        seconds = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            ask()
            seconds.append(time.perf_counter() - began)
        seconds.sort()
        show.append(f"{name}: {seconds[ROUNDS // 2] * 1000:.1f} ms, longest {seconds[-1] * 1000:.1f} ms")
        assert seconds[-2] < WAIT_SECONDS_MAX, show[-1]


@contextmanager
def other_user(server: ServerProcess, show: list[str]) -> Iterator[Callable[[], None]]:
    """Another user over gRPC and with consumers of the SDK; the function makes its requests and checks their time."""
    url = f"headrace://victim:password@{server.address}"
    with ExitStack() as stack:
        caller = stack.enter_context(caller_of(server, "victim"))
        client = stack.enter_context(headrace.connect(url))
        producer = stack.enter_context(client.producer("data", "own"))
        consumer = stack.enter_context(client.consumer("data", "own", name="sdk"))

        def produce() -> None:
            to = v1.Partitioning(partition_id=0)
            caller.messages.Produce(
                v1.ProduceRequest(**OWN, partitioning=to, messages=[v1.NewMessage(payload=b"x")]), timeout=20
            )

        def poll() -> None:
            start = v1.Start(first=v1.Start.First())
            caller.messages.Poll(v1.PollRequest(**OWN, partition_id=0, start=start, count=1), timeout=20)

        def consume() -> None:
            subscribe = v1.Subscribe(**OWN, partition_ids=[0], start=v1.Start(first=v1.Start.First()))
            call = caller.subscriptions.Consume(iter([v1.ConsumeRequest(subscribe=subscribe)]), timeout=20)
            assert next(call).WhichOneof("event") == "subscribed"
            assert next(call).WhichOneof("event") == "batch"
            call.cancel()

        def consumed() -> None:
            producer.send(b"s").result(20)
            received = 0
            while received == 0:
                received = len(consumer.poll(timeout=20) or ())

        async def consumed_with_asyncio() -> None:
            async with headrace.aio.connect(url) as other, other.consumer("data", "small", name="aio") as reader:
                assert await reader.poll(timeout=20)

        kinds: dict[str, Callable[[], None]] = {
            "produce": produce,
            "poll": poll,
            "consume": consume,
            "SDK": consumed,
            "SDK with asyncio": lambda: asyncio.run(consumed_with_asyncio()),
        }
        for ask in kinds.values():
            ask()
        yield lambda: check(show, kinds)


@pytest.mark.long(but=1)
@pytest.mark.parametrize("users", [1, 2])
def test_streams_that_are_not_read(start_server: StartServer, show: list[str], users: int) -> None:
    """Each of them asks for everything and takes nothing, as often as the server lets a user."""
    server = start_server(LIMITS)
    with victim_of(server), other_user(server, show) as check_other, ExitStack() as stack:
        before = server.memory_bytes()
        for name in HOSTILE[:users]:
            caller = stack.enter_context(caller_of(server, name))
            subscribe = v1.Subscribe(**LARGE, partition_ids=[0], start=v1.Start(first=v1.Start.First()))
            asked = v1.ConsumeRequest(subscribe=subscribe)
            # A request iterator without an end keeps the call open.
            over = threading.Event()
            calls = [caller.subscriptions.Consume(_open(asked, over)) for _ in range(CALLS)]
            stack.callback(over.set)
            stack.callback(lambda calls=calls: [call.cancel() for call in calls])
            for call in calls:
                with suppress(grpc.RpcError):
                    next(call)
        check_other()
        assert server.memory_bytes() - before < 512 << 20


def _open(request: v1.ConsumeRequest, over: threading.Event) -> Iterator[v1.ConsumeRequest]:
    yield request
    over.wait()


def test_waits(start_server: StartServer, show: list[str]) -> None:
    """Waits of one user for all partitions that may be waited for leave room for consumers of the SDK."""
    server = start_server({"WAIT_MAX_PARTITIONS": "40"})
    never = frames.poll("data", "large", 0, Strategy.OFFSET, 1_000_000, 1, who=frames.consumer(7))
    with victim_of(server), other_user(server, show) as check_other, ExitStack() as stack:
        for _ in range(60):
            hostile = stack.enter_context(RawConnection.as_user(server.address, HOSTILE[0], "password"))
            hostile.send_frame(Code.WAIT_MESSAGES, never + struct.pack("<IQ", 1, 60_000_000))
        check_other()


MANY = 400
"""Number of calls that a user keeps going: below half of `grpc.max_calls`."""
MEDIAN_SECONDS_MAX = 0.08
"""Maximum of the median wait beside these calls: it was twice that, and is a twentieth."""
CALLING = """
import asyncio, sys
from grpc import aio
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1 import messages_pb2_grpc

async def main(address, token, count):
    start = v1.Start(first=v1.Start.First())
    stream, topic = v1.Identifier(name="data"), v1.Identifier(name="small")
    request = v1.PollRequest(stream=stream, topic=topic, partition_id=0, start=start, count=1)
    async with aio.insecure_channel(address) as channel:
        poll = messages_pb2_grpc.MessagesStub(channel).Poll

        async def again():
            while True:
                await poll(request, metadata=(("authorization", "Bearer " + token),))

        calls = [asyncio.create_task(again()) for _ in range(int(count))]
        await poll(request, metadata=(("authorization", "Bearer " + token),))
        print("ready", flush=True)
        await asyncio.gather(*calls)

asyncio.run(main(*sys.argv[1:]))
"""
"""A client that keeps a number of polls going, in a process of its own."""


@pytest.mark.alone
@pytest.mark.long
def test_calls_of_one_user_let_those_of_another_pass(start_server: StartServer, show: list[str]) -> None:
    """Regression: 400 calls of one user at a time delayed each call of another one by 170 ms, because the library
    passed all of them on in the order of their arrival.
    """
    server = start_server()
    start = v1.Start(first=v1.Start.First())
    poll = v1.PollRequest(**OWN, partition_id=0, start=start, count=1)
    with victim_of(server), caller_of(server, "victim") as caller:
        with RawConnection.as_user(server.address, HOSTILE[0], "password") as connection:
            token = access_token(connection, "calling")
        arguments = [sys.executable, "-c", CALLING, server.grpc_address, token, str(MANY)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as client:
            try:
                assert client.stdout is not None
                assert client.stdout.readline() == b"ready\n"
                seconds = []
                for _ in range(60):
                    began = time.perf_counter()
                    caller.messages.Poll(poll, timeout=20)
                    seconds.append(time.perf_counter() - began)
                assert client.poll() is None, "the client has ended"
            finally:
                client.kill()
        median = sorted(seconds)[len(seconds) // 2]
        show.append(f"beside {MANY} calls: p50 {median * 1000:.1f} ms")
        assert median < MEDIAN_SECONDS_MAX, show[-1]
