"""OpenTelemetry traces of a process: settings, its own spans, and spans recorded by its native side."""

from headrace_node.tracing.config import TraceExportConfig
from headrace_node.tracing.interface import Tracing
from headrace_node.tracing.recording import recorded

__all__ = ["TraceExportConfig", "Tracing", "recorded"]
