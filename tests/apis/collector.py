"""A receiver of OpenTelemetry traces: OTLP over HTTP, as a collector serves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True, slots=True)
class Span:
    """A received span."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    began: int
    ended: int
    attributes: dict[str, Any]
    is_error: bool
    service: str

    @classmethod
    def read(cls, span: ProtoSpan, service: str) -> Self:
        values = {found.key: found.value for found in span.attributes}
        return cls(
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            name=span.name,
            kind=span.kind,
            began=span.start_time_unix_nano,
            ended=span.end_time_unix_nano,
            attributes={key: getattr(value, value.WhichOneof("value")) for key, value in values.items()},
            is_error=span.status.code == Status.STATUS_CODE_ERROR,
            service=service,
        )


class Collector:
    """A collector that keeps all received spans."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.requests = 0
        self.endpoint = ""

    async def receive(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = ExportTraceServiceRequest.FromString(await request.read())
        for resource in body.resource_spans:
            names = {found.key: found.value.string_value for found in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [Span.read(span, names["service.name"]) for span in scope.spans]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )

    async def trace(self, trace_id: str, *names: str) -> dict[str, Span]:
        """Wait for all named spans of a trace and return its spans by name."""
        deadline = asyncio.get_running_loop().time() + 60
        while True:
            found = {span.name: span for span in self.spans if span.trace_id == trace_id}
            if set(names) <= set(found):
                return found
            assert asyncio.get_running_loop().time() < deadline, (trace_id, self.spans)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Run a collector for the duration of an ``async with`` block."""
    collector = Collector()
    application = web.Application(client_max_size=2**26)
    application.router.add_post("/v1/traces", collector.receive)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address,) = runner.addresses
    collector.endpoint = f"http://127.0.0.1:{address[1]}/v1/traces"
    try:
        yield collector
    finally:
        await runner.cleanup()
