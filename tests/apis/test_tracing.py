"""Traces from a client's header to the disk, as a collector receives them (USE-6)."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator

import aiohttp
import grpc
import pytest

from headrace_core import encode_user_headers
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.messages_pb2_grpc import MessagesStub
from tests.apis.collector import Collector, Span, collecting
from tests.apis.grpc.caller import access_token
from tests.apis.http.api import Api, batch
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.server_process import ServerProcess

SERVER, INTERNAL = 2, 1


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as collector:
        yield collector


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def settings(collector: Collector, **more: str) -> dict[str, str]:
    return {
        "TRACING_ENABLED": "true",
        "TRACING_ENDPOINT": collector.endpoint,
        "TRACING_SAMPLE_RATIO": "0",
        "TRACING_SERVICE_NAME": "headrace under test",
    } | more


class Parent:
    """A client's span."""

    def __init__(self, flags: str = "01") -> None:
        self.trace_id, self.span_id = secrets.token_hex(16), secrets.token_hex(8)
        self.header = f"00-{self.trace_id}-{self.span_id}-{flags}"


def nested(*spans: Span) -> None:
    """Verify that each span is a child of the previous one and lies within its time."""
    for outer, inner in itertools.pairwise(spans):
        assert inner.parent_id == outer.span_id, (outer, inner)
        # The clock of the native side has microsecond resolution.
        assert outer.began - 1000 <= inner.began <= inner.ended <= outer.ended + 1000, (outer, inner)


@pytest.mark.long
async def test_a_request_to_http_is_followed_to_the_device(
    start_server: StartServer, collector: Collector, http: aiohttp.ClientSession
) -> None:
    server = start_server(settings(collector, DURABILITY="fsync"))
    root = await Api(http, server.http_url).login()
    topic = await root.create_topic("traced", partitions=4)
    parent = Parent()
    headers = {"traceparent": parent.header, "X-Request-Id": "order-7"}
    answer = await root("POST", f"{topic}/messages", batch(b"one", b"two", partition=3), headers=headers)
    assert answer.status == 201
    route = "POST /streams/{stream_id}/topics/{topic_id}/messages"
    spans = await collector.trace(parent.trace_id, route, "SendMessages", "append", "write", "sync", "answer")
    assert set(spans) == {route, "SendMessages", "append", "write", "sync", "answer"}
    assert spans[route].parent_id == parent.span_id
    nested(spans[route], spans["SendMessages"], spans["append"], spans["write"])
    nested(spans["append"], spans["sync"])
    nested(spans["SendMessages"], spans["answer"])
    assert spans["write"].ended <= spans["sync"].began <= spans["sync"].ended
    assert (spans[route].kind, spans["SendMessages"].kind) == (SERVER, INTERNAL)
    assert spans[route].attributes["http.response.status_code"] == 201
    assert spans[route].attributes["headrace.request_id"] == "order-7"
    assert spans["SendMessages"].attributes["headrace.status"] == 0
    stored = spans["append"].attributes
    assert (stored["headrace.partition_id"], stored["messaging.batch.message_count"]) == (3, 2)
    assert {span.service for span in spans.values()} == {"headrace under test"}
    assert not any(span.is_error for span in spans.values())

    refused = Parent()
    await root("POST", f"{topic}/messages", batch(b"x", partition=99), headers={"traceparent": refused.header})
    spans = await collector.trace(refused.trace_id, "SendMessages")
    assert spans["SendMessages"].is_error
    assert spans["SendMessages"].attributes["headrace.status"] == Status.PARTITION_NOT_FOUND
    assert "append" not in spans

    read = Parent()
    await root.ok("GET", f"{topic}/messages?partition_id=3", headers={"traceparent": read.header})
    spans = await collector.trace(read.trace_id, "ReadMessages", "partition")
    nested(spans["ReadMessages"], spans["partition"])
    assert spans["partition"].attributes["messaging.batch.message_count"] == 2
    assert "write" not in spans


def traced_batch(value: str) -> bytes:
    """A batch to partition 0 whose first message has the header."""
    header = encode_user_headers([(("string", b"traceparent"), ("string", value.encode()))])
    messages = [frames.message(b"first", header), frames.message(b"second")]
    return frames.send("s", "t", frames.to_partition(0), messages)


async def test_a_binary_client_and_a_call_of_grpc(start_server: StartServer, collector: Collector) -> None:
    server = start_server(settings(collector))
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        token = access_token(connection)
        sent, polled, called = Parent(), Parent(), Parent()
        connection.ok(Code.SEND_MESSAGES, traced_batch(sent.header))
        context = bytes.fromhex(polled.trace_id + polled.span_id + "01")
        assert connection.ok(Code.SET_TRACE_CONTEXT, context) == b""
        connection.poll("s", "t", 0, Strategy.FIRST)
        connection.ok(Code.PING)
    await asyncio.to_thread(_produce, server, token, called)

    spans = await collector.trace(sent.trace_id, "SendMessages", "append", "write", "answer")
    assert spans["SendMessages"].parent_id == sent.span_id
    assert spans["SendMessages"].kind == SERVER
    nested(spans["SendMessages"], spans["append"], spans["write"])
    # With durability `os` the response does not wait for the device.
    assert "sync" not in spans

    spans = await collector.trace(polled.trace_id, "PollMessages", "partition", "answer")
    assert spans["PollMessages"].parent_id == polled.span_id
    assert len(spans) == 3

    method = "headrace.gateway.v1.Messages/Produce"
    spans = await collector.trace(called.trace_id, method, "SendMessages", "append", "write")
    listener = spans[method]
    assert (listener.parent_id, listener.attributes["rpc.method"]) == (called.span_id, "Produce")
    nested(listener, spans["SendMessages"], spans["append"], spans["write"])


def _produce(server: ServerProcess, token: str, parent: Parent) -> None:
    metadata = [("authorization", f"Bearer {token}"), ("traceparent", parent.header)]
    with grpc.insecure_channel(server.grpc_address) as channel:
        request = v1.ProduceRequest(
            stream=v1.Identifier(name="s"), topic=v1.Identifier(name="t"), messages=[v1.NewMessage(payload=b"m")]
        )
        MessagesStub(channel).Produce(request, metadata=metadata)


async def test_what_is_not_sampled_is_not_recorded(
    start_server: StartServer, collector: Collector, http: aiohttp.ClientSession
) -> None:
    server = start_server(settings(collector))
    root = await Api(http, server.http_url).login()
    topic = await root.create_topic("s")
    unsampled = Parent("00")
    await root.ok("POST", f"{topic}/messages", batch(b"m"), headers={"traceparent": unsampled.header})
    with RawConnection.as_root(server.address) as connection:
        for value in (unsampled.header, "no context"):
            connection.ok(Code.SEND_MESSAGES, traced_batch(value))
    last = Parent()
    await root.ok("POST", f"{topic}/messages", batch(b"m"), headers={"traceparent": last.header})
    await collector.trace(last.trace_id, "SendMessages", "answer")
    assert {span.trace_id for span in collector.spans} == {last.trace_id}


async def test_requests_without_a_context(
    start_server: StartServer, collector: Collector, http: aiohttp.ClientSession
) -> None:
    """Such requests begin new traces at the configured sampling rate. Commands of one request share a trace."""
    server = start_server(settings(collector, TRACING_SAMPLE_RATIO="1"))
    root = await Api(http, server.http_url).login()
    topic = await root.create_topic("s", partitions=200)
    await root.ok("GET", f"{topic}/consumers/1/lag")
    deadline = time.monotonic() + 60
    route = "GET /streams/{stream_id}/topics/{topic_id}/consumers/{consumer_id}/lag"
    while not (listeners := [span for span in collector.spans if span.name == route]):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert listeners[0].parent_id == ""
    await collector.trace(listeners[0].trace_id, "GetTopic", "GetConsumerOffset")
    # A streaming response records its span at the beginning.
    commands = [span for span in collector.spans if span.parent_id == listeners[0].span_id]
    assert 2 <= len(commands) <= 100


async def test_it_is_off_unless_configured(
    start_server: StartServer, collector: Collector, http: aiohttp.ClientSession
) -> None:
    server = start_server(settings(collector, TRACING_ENABLED="false", TRACING_SAMPLE_RATIO="1"))
    root = await Api(http, server.http_url).login()
    topic = await root.create_topic("s")
    await root.ok("POST", f"{topic}/messages", batch(b"m"), headers={"traceparent": Parent().header})
    with RawConnection.as_root(server.address) as connection:
        connection.ok(Code.SEND_MESSAGES, traced_batch(Parent().header))
        connection.ok(Code.SET_TRACE_CONTEXT, bytes.fromhex(Parent().trace_id) + bytes(8) + b"\x01")
        connection.ok(Code.PING)
    server.stop()
    assert collector.requests == 0


@pytest.mark.long
async def test_no_caller_waits_for_a_collector_that_is_not_there(
    start_server: StartServer, http: aiohttp.ClientSession
) -> None:
    server = start_server(
        {"TRACING_ENABLED": "true", "TRACING_ENDPOINT": "http://127.0.0.1:9/v1/traces", "TRACING_SAMPLE_RATIO": "1"}
    )
    root = await Api(http, server.http_url).login()
    topic = await root.create_topic("s")
    for _ in range(300):
        await root.ok("POST", f"{topic}/messages", batch(b"m"))
    assert (await root.ok("GET", f"{topic}/messages?count=300"))["count"] == 300
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 30
