"""Registries of metrics, in the client library of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.registry import Collector


def registry(*collectors: Collector) -> CollectorRegistry:
    """Return a registry with the metrics of the process (CPU, memory, files) and of these collectors."""
    collected = CollectorRegistry()
    ProcessCollector(registry=collected)
    for collector in collectors:
        collected.register(collector)
    return collected


def numbers(table: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Return the numbers of a table of statistics, by name; nested tables and texts are left out."""
    return ((name, float(value)) for name, value in table.items() if isinstance(value, bool | int | float))
