"""Traces through a cluster: gateway, partition node and metadata service send spans of one trace (USE-6)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.messages_pb2_grpc import MessagesStub
from tests.apis.collector import Collector, Span, collecting
from tests.apis.grpc.caller import access_token
from tests.cluster import Cluster
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.gateways.conftest import GATEWAY, NODE

METADATA = "headrace.metadata.v1.Metadata"


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as collector:
        yield collector


def traced(directory: Path, collector: Collector) -> Cluster:
    own = {"tracing.enabled": True, "tracing.endpoint": collector.endpoint}
    return Cluster(
        directory,
        nodes=1,
        gateways=1,
        replica_settings={"TRACING_ENABLED": "true", "TRACING_ENDPOINT": collector.endpoint},
        node_settings={**NODE, **own, "durability": "fsync"},
        gateway_settings={**GATEWAY, **own, "tracing.sample_ratio": 0},
    )


async def spans_of(collector: Collector, trace_id: str, *wanted: tuple[str, str]) -> dict[tuple[str, str], Span]:
    """Wait for all these spans and return them by service and name."""
    async with asyncio.timeout(60):
        while True:
            found = {(span.service, span.name): span for span in collector.spans if span.trace_id == trace_id}
            if found.keys() >= set(wanted):
                return found
            await asyncio.sleep(0.05)


async def test_one_request_is_followed_through_all_services(tmp_path: Path, collector: Collector) -> None:
    cluster = traced(tmp_path, collector)
    await asyncio.to_thread(cluster.start)
    try:
        gateway = cluster.gateways[0].listeners
        trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
        made, made_in = secrets.token_hex(16), secrets.token_hex(8)
        await asyncio.to_thread(
            produce, gateway.tcp, gateway.grpc, f"00-{trace_id}-{span_id}-01", made + made_in + "01"
        )
        service, call = "headrace", "headrace.gateway.v1.Messages/Produce"
        spans = await spans_of(
            collector,
            trace_id,
            (service, call),
            (service, "SendMessages"),
            *(("headrace-node", name) for name in ("append", "write", "sync", "answer")),
            # The access token of the call is looked up where it is known for sure.
            ("headrace-metadata", f"{METADATA}/Read"),
        )
        listener = spans[service, call]
        assert listener.parent_id == span_id
        assert spans[service, "SendMessages"].parent_id == listener.span_id
        assert spans["headrace-metadata", f"{METADATA}/Read"].parent_id == listener.span_id
        append = spans["headrace-node", "append"]
        on_node = [span for span in spans.values() if span.span_id == append.parent_id]
        assert [(span.service, span.parent_id) for span in on_node] == [("headrace-node", listener.span_id)]
        for name in ("write", "sync"):
            inner = spans["headrace-node", name]
            assert inner.parent_id == append.span_id
            # All processes are on one machine, and the clock of the native side has microseconds.
            assert listener.began - 1000 <= inner.began <= inner.ended <= listener.ended + 1000

        # A command of a binary client: its connection's shard, the control plane, a replica and its commit.
        propose = f"{METADATA}/Propose"
        spans = await spans_of(
            collector,
            made,
            (service, "CreateTopic"),
            ("headrace-metadata", propose),
            ("headrace-metadata", "commit"),
        )
        assert spans[service, "CreateTopic"].parent_id == made_in
        assert spans["headrace-metadata", propose].parent_id == made_in
        commit = spans["headrace-metadata", "commit"]
        assert commit.parent_id == spans["headrace-metadata", propose].span_id
        assert commit.attributes["headrace.command"] == "create_topic"
        # Unsampled requests are recorded by no service.
        assert {span.trace_id for span in collector.spans} == {trace_id, made}
    finally:
        await asyncio.to_thread(cluster.__exit__, None, None, None)


def produce(tcp: str, address: str, traceparent: str, context: str) -> None:
    with RawConnection.as_root(tcp) as connection:
        connection.ok(Code.CREATE_STREAM, frames.name("s"))
        connection.ok(Code.SET_TRACE_CONTEXT, bytes.fromhex(context))
        connection.ok(Code.CREATE_TOPIC, frames.create_topic("s", "t", 1))
        token = access_token(connection)
    metadata = [("authorization", f"Bearer {token}"), ("traceparent", traceparent)]
    with grpc.insecure_channel(address) as channel:
        request = v1.ProduceRequest(
            stream=v1.Identifier(name="s"), topic=v1.Identifier(name="t"), messages=[v1.NewMessage(payload=b"m")]
        )
        MessagesStub(channel).Produce(request, metadata=metadata)
