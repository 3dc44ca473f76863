"""Metrics and traces of clients for OpenTelemetry: needs `headrace[otel]`.

Give an `OpenTelemetry` to a client, and use `process` where messages are processed. Names are those of OpenTelemetry's
semantic conventions for messaging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import metrics, propagate, trace
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Span, SpanKind

from headrace.sdk.calls import Name
from headrace.sdk.telemetry import ReadBatch, SentBatch, Telemetry
from headrace_core import Message

_SYSTEM: Final = "headrace"
_HEADER_BYTES_MAX: Final = 255

Attributes = dict[str, str | int]


class OpenTelemetry(Telemetry):
    """Hooks of a client that feed OpenTelemetry.

    - Messages that are sent within a span carry its context in their headers (`traceparent`, and what else the
      propagator adds).
    - Counters `messaging.client.sent.messages` and `messaging.client.consumed.messages`, histogram
      `messaging.client.operation.duration` (seconds of sent batches), gauge `headrace.consumer.lag` (messages).

    Examples:
        >>> from headrace.otel import OpenTelemetry
        >>> telemetry = OpenTelemetry()
        >>> with headrace.connect(url, options=headrace.ClientOptions(telemetry=telemetry)) as client:
        ...     with client.producer("shop", "orders") as producer:
        ...         delivery = producer.send(b"one book")
        ...     with client.consumer("shop", "orders") as consumer:
        ...         for message in consumer:
        ...             with telemetry.process(message, "orders") as span:
        ...                 print(message.payload)
        ...             break
        b'one book'
    """

    def __init__(
        self,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        """Make the instruments.

        Args:
            meter_provider: Where metrics go; None: to the global provider.
            tracer_provider: Where spans go; None: to the global provider.
            propagator: Form of the context in headers; None: the global one, by default that of W3C.
        """
        meter = metrics.get_meter("headrace", meter_provider=meter_provider)
        self._tracer = trace.get_tracer("headrace", tracer_provider=tracer_provider)
        self._propagator = propagator
        self._sent = meter.create_counter("messaging.client.sent.messages", unit="{message}")
        self._consumed = meter.create_counter("messaging.client.consumed.messages", unit="{message}")
        self._duration = meter.create_histogram("messaging.client.operation.duration", unit="s")
        self._lag = meter.create_gauge("headrace.consumer.lag", unit="{message}")

    def _format(self) -> TextMapPropagator:
        return self._propagator or propagate.get_global_textmap()

    def headers(self, stream: Name, topic: Name) -> Mapping[str, str] | None:
        """Return the context of the current span, if there is one."""
        del stream, topic
        if not trace.get_current_span().get_span_context().is_valid:
            return None
        carrier: dict[str, str] = {}
        self._format().inject(carrier)
        return {name: value for name, value in carrier.items() if 1 <= len(value.encode()) <= _HEADER_BYTES_MAX}

    def batch_sent(self, batch: SentBatch) -> None:
        """Count a batch, and note how long it took."""
        attributes = _attributes(batch.stream, batch.topic, batch.partition_id, "send")
        if batch.error is not None:
            attributes["error.type"] = "not_delivered"
        self._sent.add(batch.messages, attributes)
        self._duration.record(batch.seconds, attributes)

    def batch_read(self, batch: ReadBatch) -> None:
        """Count a batch, and note the lag."""
        attributes = _attributes(batch.stream, batch.topic, batch.partition_id, "receive")
        if batch.group is not None:
            attributes["messaging.consumer.group.name"] = str(batch.group)
        self._consumed.add(batch.messages, attributes)
        self._lag.set(batch.lag, attributes)

    @contextmanager
    def process(self, message: Message, topic: Name, *, group: Name | None = None) -> Iterator[Span]:
        """Process a message within a span that continues the trace of its sender.

        Args:
            message: The message.
            topic: Its topic, for the name of the span.
            group: The consumer group, for the attributes of the span.
        """
        carrier = {name: value for name, value in (message.headers or {}).items() if isinstance(value, str)}
        attributes: Attributes = {
            "messaging.system": _SYSTEM,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": str(topic),
            "messaging.destination.partition.id": str(message.partition_id),
            "messaging.message.id": str(message.id),
            "messaging.headrace.message.offset": message.offset,
        }
        if group is not None:
            attributes["messaging.consumer.group.name"] = str(group)
        with self._tracer.start_as_current_span(
            f"process {topic}", context=self._format().extract(carrier), kind=SpanKind.CONSUMER, attributes=attributes
        ) as span:
            yield span


def _attributes(stream: Name, topic: Name, partition: int | None, operation: str) -> Attributes:
    attributes: Attributes = {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": operation,
        "messaging.destination.name": str(topic),
        "headrace.stream.name": str(stream),
    }
    if partition is not None:
        attributes["messaging.destination.partition.id"] = str(partition)
    return attributes
