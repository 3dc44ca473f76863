"""Metrics of this node in addition to those of its shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_chassis import metrics
from headrace_node.metrics import NodeCollector, Statistics

_PREFIX: Final = "headrace_partition_node_"


@dataclass(frozen=True, slots=True)
class Figures:
    """Snapshot of the node's metrics."""

    is_ready: bool
    is_registered: bool
    lease_age_seconds: float
    catalogue_version: int
    catalogue_age_seconds: float
    placed_partitions: int
    open_partitions: int
    recovering_partitions: int
    failed_partitions: int
    waiting_notices: int
    waiting_publications: int
    horizon_seconds: float
    grpc_calls: int
    grpc_memory_bytes: int


_MEANINGS: Final = {
    "is_ready": "1 when it serves what is placed here.",
    "is_registered": "1 when the cluster knows this run of the node.",
    "lease_age_seconds": "Time since the cluster has heard from it.",
    "catalogue_version": "Version of the catalogue that the shards act on.",
    "catalogue_age_seconds": "Time since it was seen that there is no newer one.",
    "placed_partitions": "Partitions that the catalogue places here.",
    "open_partitions": "Partitions that the shards have, open or recovering.",
    "recovering_partitions": "Partitions that recover.",
    "failed_partitions": "Partitions that closed themselves.",
    "waiting_notices": "Partitions of consumer groups that may move, of which the metadata service has not heard.",
    "waiting_publications": "Partitions that have appended what was committed, and the metadata service has not heard.",
    "horizon_seconds": "Time, since the Unix epoch, up to which the shards know every commit.",
    "grpc_calls": "Calls under way.",
    "grpc_memory_bytes": "Bytes of batches that calls hold.",
}


class _Collector(Collector):
    def __init__(self, figures: Callable[[], Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        figures = self._figures()
        for name, meaning in _MEANINGS.items():
            yield GaugeMetricFamily(f"{_PREFIX}{name}", meaning, value=float(getattr(figures, name)))


def registry(figures: Callable[[], Figures], statistics: Statistics) -> CollectorRegistry:
    """Return the registry of `/metrics`.

    Args:
        figures: Returns the metrics of this node; called in any thread.
        statistics: Returns the counters of the shards; called in any thread.
    """
    return metrics.registry(_Collector(figures), NodeCollector(statistics))
