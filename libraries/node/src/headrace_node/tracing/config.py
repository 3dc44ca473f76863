"""Settings of traces."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from headrace_settings import Section


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{text!r} is not a URL such as http://127.0.0.1:4318/v1/traces")
    return text


def _with_open_telemetry(enabled: bool) -> bool:
    if enabled and (find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None):
        raise ValueError("OpenTelemetry is not installed: install 'headrace[tracing]'")
    return enabled


class TraceExportConfig(Section):
    """`tracing`: spans of this process, as parts of traces that begin elsewhere."""

    enabled: Annotated[bool, AfterValidator(_with_open_telemetry)] = False
    """Record requests that are part of a recorded trace, and send the spans to `endpoint`."""
    endpoint: Annotated[str, AfterValidator(_http_url)] = "http://127.0.0.1:4318/v1/traces"
    """URL of the collector: OTLP over HTTP, protobuf."""
    service_name: str = "headrace"
    """Service name of this process in traces."""
