"""Hooks of clients of both flavours, and OpenTelemetry with its own SDK."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import headrace
from headrace.otel import OpenTelemetry
from tests.sdk.flavours import Flavour


class Recorded(headrace.Telemetry):
    """Keeps what its hooks are called with."""

    def __init__(self) -> None:
        self.sent: list[headrace.SentBatch] = []
        self.read: list[headrace.ReadBatch] = []
        self.changes: list[str] = []
        self.threads: set[str] = set()

    def headers(self, stream: int | str, topic: int | str) -> Mapping[str, str]:
        return {"origin": f"{topic} of {len(str(stream))}"}

    def batch_sent(self, batch: headrace.SentBatch) -> None:
        self.threads.add(threading.current_thread().name)
        self.sent.append(batch)

    def batch_read(self, batch: headrace.ReadBatch) -> None:
        self.read.append(batch)

    def connection_changed(self, change: str, reason: str) -> None:
        self.changes.append(change + reason)


async def read_all(client: Any, stream: str, count: int, **options: Any) -> list[headrace.Message]:
    found: list[headrace.Message] = []
    async with client.consumer(stream, "t", **options) as consumer:
        while len(found) < count:
            found += await consumer.poll()
    return found


async def test_batches_are_reported(flavour: Flavour, client: Any, stream: str, url: str) -> None:
    recorded = Recorded()
    async with flavour.connect(url, options=headrace.ClientOptions(telemetry=recorded)) as observed:
        async with observed.producer(stream, "t") as producer:
            await producer.send_many([b"1", b"2", b"3"], partition=1)
        messages = await read_all(observed, stream, 3, group="billing")
    # The end of the client is the end of its reports.
    (sent,) = recorded.sent
    assert (sent.stream, sent.topic, sent.partition_id, sent.messages, sent.error) == (stream, "t", 1, 3, None)
    assert sent.size_bytes > 3 * 64
    assert 0 < sent.seconds < 60
    assert recorded.threads == {"headrace-telemetry"}
    (read,) = recorded.read
    assert read == headrace.ReadBatch(stream, "t", "billing", 1, 3, sent.size_bytes, 0)
    assert [message.headers for message in messages] == [{"origin": f"t of {len(stream)}"}] * 3
    assert "opened" in recorded.changes


async def test_direct_sends_and_failures_are_reported(flavour: Flavour, client: Any, stream: str, url: str) -> None:
    recorded = Recorded()
    options = headrace.ClientOptions(telemetry=recorded)
    async with flavour.connect(url, options=options) as observed, observed.direct_producer() as direct:
        await direct.send_to(stream, "t", [b"1", b"2"], partition=0, headers={"origin": "caller"})
        await direct.send_to(stream, "t", headrace.Outgoing(b"3", partition=0, headers={"own": True}))
        await client.delete_topic(stream, "t")
        with pytest.raises(headrace.NotFound):
            await direct.send_to(stream, "t", b"4", partition=0)
    assert [(batch.messages, batch.partition_id) for batch in recorded.sent] == [(2, 0), (1, 0), (1, None)]
    assert [batch.error is None for batch in recorded.sent] == [True, True, False]
    assert recorded.read == []


async def test_headers_of_the_caller_win(flavour: Flavour, client: Any, stream: str, url: str) -> None:
    async with flavour.connect(url, options=headrace.ClientOptions(telemetry=Recorded())) as observed:
        async with observed.direct_producer() as direct:
            await direct.send_to(stream, "t", [b"1"], partition=0, headers={"origin": "caller"})
            await direct.send_to(stream, "t", headrace.Outgoing(b"2", partition=0, headers={"own": True}))
        async with observed.producer(stream, "t") as producer:
            await producer.send(b"3", partition=0, headers={"origin": "caller"})
    hook = {"origin": f"t of {len(stream)}"}
    messages = await client.read(stream, "t")
    assert [message.headers for message in messages] == [
        {"origin": "caller"},
        {**hook, "own": True},
        {"origin": "caller"},
    ]


class Broken(headrace.Telemetry):
    """Fails in every hook."""

    def headers(self, stream: int | str, topic: int | str) -> Mapping[str, str]:
        raise RuntimeError("headers")

    def batch_sent(self, batch: headrace.SentBatch) -> None:
        raise RuntimeError("batch_sent")


async def test_a_hook_that_fails_is_logged_and_harmless(
    flavour: Flavour, client: Any, stream: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = headrace.ClientOptions(telemetry=Broken())
    with caplog.at_level(logging.ERROR, "headrace"):
        async with flavour.connect(url, options=options) as observed, observed.producer(stream, "t") as producer:
            assert (await (await producer.send(b"1", partition=0))).offset == 0
    failures = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert failures == ["headers", "batch_sent"]


async def test_opentelemetry_gets_metrics_and_joined_traces(
    flavour: Flavour, client: Any, stream: str, url: str
) -> None:
    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    meters, tracers = MeterProvider([reader]), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = OpenTelemetry(meter_provider=meters, tracer_provider=tracers)
    async with flavour.connect(url, options=headrace.ClientOptions(telemetry=telemetry)) as observed:
        async with observed.producer(stream, "t") as producer:
            with tracers.get_tracer("test").start_as_current_span("order") as span:
                await producer.send_many([b"1", b"2"], partition=0)
            trace_id = span.get_span_context().trace_id
            await producer.send(b"outside of a span", partition=0)
        messages = await read_all(observed, stream, 3, group="billing")
        with telemetry.process(messages[0], "t", group="billing"):
            pass
    assert (messages[0].headers or {})["traceparent"].startswith(f"00-{trace_id:032x}-")
    assert messages[2].headers in ({}, None)
    processed = next(span for span in exporter.get_finished_spans() if span.name == "process t")
    assert processed.context is not None
    assert processed.context.trace_id == trace_id
    assert processed.parent is not None
    assert processed.parent.span_id == span.get_span_context().span_id
    assert (processed.attributes or {})["messaging.headrace.message.offset"] == 0
    data = reader.get_metrics_data()
    assert data is not None
    found = {metric.name: metric.data.data_points for metric in data.resource_metrics[0].scope_metrics[0].metrics}
    points: dict[str, Any] = {name: next(iter(values)) for name, values in found.items()}
    assert points["messaging.client.sent.messages"].value == 3
    assert points["messaging.client.consumed.messages"].value == 3
    assert points["headrace.consumer.lag"].value == 0
    assert points["messaging.client.operation.duration"].sum > 0
    assert points["messaging.client.sent.messages"].attributes["messaging.destination.name"] == "t"
