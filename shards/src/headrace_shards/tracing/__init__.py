"""OpenTelemetry traces of a process: settings, its own spans, and spans recorded by its native side."""

from headrace_shards.tracing.config import TraceExportConfig
from headrace_shards.tracing.recording import recorded
from headrace_shards.tracing.spans import Tracing

__all__ = ["TraceExportConfig", "Tracing", "recorded"]
