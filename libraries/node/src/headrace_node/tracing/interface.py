"""Interface of tracing: nothing here needs OpenTelemetry, which is installed only where traces are exported."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from headrace_proto.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.trace import Span

Attributes = Mapping[str, str | int | float | bool]


class Tracing(ABC):
    """Creates spans of requests, and from native trace records."""

    @abstractmethod
    def request(self, name: str, carrier: Mapping[str, str], attributes: Attributes) -> AbstractContextManager[Span]:
        """Record the span of an API request for the duration of a ``with`` block. Its commands become child spans.

        Args:
            name: Name of the route or method.
            carrier: Headers of the request, in lower case; only ``traceparent`` and ``tracestate`` are read.
            attributes: Initial attributes.
        """

    @abstractmethod
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
        """Record a span that has already ended; returns it as a parent for others.

        Args:
            name: Name of the operation.
            parent: Parent span, which must be recorded.
            began_micros: Microseconds since the Unix epoch.
            ended_micros: Microseconds since the Unix epoch.
            attributes: Attributes of the span.
            failure: Reason of a failure; empty on success.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Export the waiting spans, with a short timeout."""
