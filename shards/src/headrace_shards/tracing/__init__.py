"""OpenTelemetry traces of a process: their settings, its spans, and what its native side has recorded."""

from headrace_shards.tracing.config import TraceExportConfig
from headrace_shards.tracing.recording import recorded
from headrace_shards.tracing.spans import Tracing

__all__ = ["TraceExportConfig", "Tracing", "recorded"]
