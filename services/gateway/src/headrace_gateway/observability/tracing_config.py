"""Settings of traces."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from headrace_settings import Between, Section


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{text!r} is no URL such as http://127.0.0.1:4318/v1/traces")
    return text


class TracingConfig(Section):
    """`tracing`: OpenTelemetry traces from a client's header to the disk."""

    enabled: bool = False
    """Record requests and send them to `endpoint`."""
    endpoint: Annotated[str, AfterValidator(_http_url)] = "http://127.0.0.1:4318/v1/traces"
    """Where they are sent: OTLP over HTTP, protobuf."""
    sample_ratio: Annotated[float, Between(0.0, 1.0)] = 0.01
    """How many of the requests to HTTP and gRPC that carry no `traceparent` are recorded. Those that carry one are
    recorded if it says so."""
    service_name: str = "headrace"
    """What this server is called in traces."""
