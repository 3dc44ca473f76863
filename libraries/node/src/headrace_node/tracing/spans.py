"""OpenTelemetry spans of requests, sent to a collector in the background.

No caller waits for the collector: spans that it does not accept in time are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Self

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headrace_node.tracing.config import TraceExportConfig
from headrace_node.tracing.interface import Attributes, Tracing
from headrace_proto.trace_context import REQUEST, Recorded, TraceContext

_QUEUED_MAX: Final = 8192
_BATCH_MAX: Final = 512
_DELAY_MILLIS: Final = 1000
_EXPORT_SECONDS: Final = 5
_CLOSE_SECONDS: Final = 3.0
_OWN_MAX: Final = 16_384


class OpenTelemetrySpans(Tracing):
    """Spans by the OpenTelemetry SDK, which is installed with the extra ``tracing``."""

    def __init__(self, exporter: SpanExporter, *, resource: Mapping[str, str], sample_ratio: float) -> None:
        """Start exporting.

        Args:
            exporter: Receives the spans.
            resource: Attributes of this process.
            sample_ratio: Fraction of the requests without a context that are recorded, from 0 to 1.
        """
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
            resource=Resource.create(dict(resource)),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter,
                max_queue_size=_QUEUED_MAX,
                max_export_batch_size=_BATCH_MAX,
                schedule_delay_millis=_DELAY_MILLIS,
            )
        )
        self._tracer = self._provider.get_tracer("headrace")
        self._propagator = TraceContextTextMapPropagator()
        # Ids of this process's spans; children of other spans have the kind SERVER.
        self._own: OrderedDict[int, None] = OrderedDict()

    @classmethod
    def to_collector(cls, config: TraceExportConfig, *, version: str, instance: str, sample_ratio: float) -> Self:
        """Create an instance that sends spans to the collector in the settings.

        Args:
            config: Settings.
            version: Version of this release.
            instance: Distinguishes this process from others of the same service.
            sample_ratio: Fraction of the requests without a context that are recorded, from 0 to 1.
        """
        return cls(
            OTLPSpanExporter(endpoint=config.endpoint, timeout=_EXPORT_SECONDS),
            resource={
                "service.name": config.service_name,
                "service.version": version,
                "service.instance.id": instance,
            },
            sample_ratio=sample_ratio,
        )

    @contextmanager
    def request(self, name: str, carrier: Mapping[str, str], attributes: Attributes) -> Iterator[Span]:
        """Record the span of an API request, as `Tracing.request` describes."""
        parent = self._propagator.extract(carrier)
        span = self._tracer.start_span(name, parent, kind=SpanKind.SERVER, attributes=dict(attributes))
        context = span.get_span_context()
        if not span.is_recording():
            yield span
            return
        self._remember(context.span_id)
        REQUEST.set(Recorded(TraceContext(context.trace_id, context.span_id)))
        try:
            yield span
        except BaseException as error:
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            REQUEST.set(None)
            span.end()

    def past(
        self,
        name: str,
        parent: TraceContext,
        began_micros: int,
        ended_micros: int,
        attributes: Attributes,
        *,
        failure: str = "",
    ) -> TraceContext:
        """Record a span that has already ended, as `Tracing.past` describes."""
        is_own = parent.span_id in self._own
        remote = SpanContext(parent.trace_id, parent.span_id, is_remote=not is_own, trace_flags=TraceFlags(1))
        span = self._tracer.start_span(
            name,
            set_span_in_context(NonRecordingSpan(remote)),
            kind=SpanKind.INTERNAL if is_own else SpanKind.SERVER,
            attributes=dict(attributes),
            start_time=began_micros * 1000,
        )
        if failure:
            span.set_status(StatusCode.ERROR, failure)
        span.end(max(began_micros, ended_micros) * 1000)
        context = span.get_span_context()
        self._remember(context.span_id)
        return TraceContext(context.trace_id, context.span_id)

    async def stop(self) -> None:
        """Export the waiting spans, with a short timeout."""

        def shut_down() -> None:
            self._provider.force_flush(int(_CLOSE_SECONDS * 1000))
            self._provider.shutdown()

        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(shut_down), _CLOSE_SECONDS + _EXPORT_SECONDS)

    def _remember(self, span_id: int) -> None:
        self._own[span_id] = None
        if len(self._own) > _OWN_MAX:
            self._own.popitem(last=False)
