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
class Metrics:
    """Snapshot of the node's metrics."""

    is_ready: bool
    is_registered: bool
    lease_age_seconds: float
    catalog_version: int
    catalog_age_seconds: float
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
    "is_ready": "1 if the node serves its partitions.",
    "is_registered": "1 if this run of the node is registered with the cluster.",
    "lease_age_seconds": "Time since the last acknowledged heartbeat of the node.",
    "catalog_version": "Version of the catalog that the shards use.",
    "catalog_age_seconds": "Time since the catalog was last known to be current.",
    "placed_partitions": "Partitions that the catalog places on this node.",
    "open_partitions": "Partitions that the shards hold, open or recovering.",
    "recovering_partitions": "Partitions that are recovering.",
    "failed_partitions": "Partitions that have failed, or have a file that cannot be written.",
    "waiting_notices": "Group partitions that may move, and are not yet reported to the metadata service.",
    "waiting_publications": "Partitions with appended commits that are not yet reported to the metadata service.",
    "horizon_seconds": "Time, since the Unix epoch, up to which the shards know every commit.",
    "grpc_calls": "Calls in progress.",
    "grpc_memory_bytes": "Bytes of batches held by calls.",
}


class _Collector(Collector):
    def __init__(self, current: Callable[[], Metrics]) -> None:
        self._current = current

    def collect(self) -> Iterator[Metric]:
        current = self._current()
        for name, meaning in _MEANINGS.items():
            yield GaugeMetricFamily(f"{_PREFIX}{name}", meaning, value=float(getattr(current, name)))


def registry(current: Callable[[], Metrics], statistics: Statistics) -> CollectorRegistry:
    """Return the registry of `/metrics`.

    Args:
        current: Returns the metrics of this node; called in any thread.
        statistics: Returns the counters of the shards; called in any thread.
    """
    return metrics.registry(_Collector(current), NodeCollector(statistics))
