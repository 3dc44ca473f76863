"""Metrics of the audit trail itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_gateway.audit.audit_log import AuditLog

_PREFIX: Final = "headrace_audit_"


class TrailCollector(Collector):
    """Counts of events that are missing in the trail."""

    def __init__(self, trail: AuditLog) -> None:
        self._trail = trail

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        lost = CounterMetricFamily(
            f"{_PREFIX}lost_events",
            "Events missing in the audit trail: the queue was full (queue), the write failed (disk), the event "
            "cannot be written as JSON (form), or the syslog server did not take it (export).",
            labels=["reason"],
        )
        for reason, count in self._trail.lost_counts.items():
            lost.add_metric([reason], count)
        yield lost
        yield CounterMetricFamily(
            f"{_PREFIX}suppressed_events",
            "Logins, failures and refusals that were only counted, in the record of a similar event.",
            value=self._trail.suppressed_count,
        )
