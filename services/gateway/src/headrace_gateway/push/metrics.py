"""Prometheus metrics of the push."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

_IN: Final = "in"
_OUT: Final = "out"


class PushMetrics(Collector):
    """Counts connections, subscriptions and what goes over them."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.connections = Gauge("headrace_push_connections", "Connected clients.", registry=registry)
        self.subscriptions = Gauge("headrace_push_subscriptions", "Current subscriptions.", registry=registry)
        messages = Counter(
            "headrace_push_messages", "Messages pushed (out) and sent (in).", ["direction"], registry=registry
        )
        size_bytes = Counter(
            "headrace_push_bytes", "Size of these messages in the log.", ["direction"], registry=registry
        )
        self._closed = Counter("headrace_push_closed", "Closed connections by close code.", ["code"], registry=registry)
        self._stalled = Counter(
            "headrace_push_credit_stalls",
            "Number of times that messages waited for credit of a client.",
            registry=registry,
        )
        self._messages_in, self._messages_out = messages.labels(_IN), messages.labels(_OUT)
        self._bytes_in, self._bytes_out = size_bytes.labels(_IN), size_bytes.labels(_OUT)

    def sent(self, messages: int, size_bytes: int) -> None:
        """Count what was pushed."""
        self._messages_out.inc(messages)
        self._bytes_out.inc(size_bytes)

    def received(self, messages: int, size_bytes: int) -> None:
        """Count what was appended."""
        self._messages_in.inc(messages)
        self._bytes_in.inc(size_bytes)

    def stalled(self) -> None:
        """Count a subscription that has to wait for credit."""
        self._stalled.inc()

    def closed(self, code: int) -> None:
        """Count a connection that has ended."""
        self._closed.labels(str(code)).inc()

    def describe(self) -> list[Metric]:
        """Return the metric names, which are constant."""
        return list(self._registry.collect())

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        yield from self._registry.collect()
