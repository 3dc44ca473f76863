"""Metrics of the connection between a gateway and the metadata service."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_gateway.catalog.follower import Catalog
from headrace_gateway.service.nodes import NodeConditions
from headrace_metadata_client import SessionPool

_PREFIX: Final = "headrace_gateway_"


class ClusterCollector(Collector):
    """Age of the catalog, and outcomes of commands."""

    def __init__(self, catalog: Catalog, sessions: SessionPool, unready: Callable[[], str | None]) -> None:
        self._catalog = catalog
        self._sessions = sessions
        self._unready = unready

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        age_seconds = self._catalog.age_seconds
        yield GaugeMetricFamily(
            f"{_PREFIX}ready", "1 if the gateway is ready for clients.", value=self._unready() is None
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}catalog_version",
            "Catalog version of this gateway.",
            value=self._catalog.view.version,
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}catalog_age_seconds",
            "Time since the catalog was last known to be current.",
            value=age_seconds if math.isfinite(age_seconds) else math.nan,
        )
        yield CounterMetricFamily(
            f"{_PREFIX}commands_repeated",
            "Commands sent again although an earlier attempt may have been applied.",
            value=self._sessions.repeats,
        )


class NodesCollector(Collector):
    """Partition nodes without contact, and the topics on them: by name, so only for those who may read the server."""

    def __init__(self, nodes: NodeConditions) -> None:
        self._nodes = nodes

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        heard = GaugeMetricFamily(
            f"{_PREFIX}node_heard", "1 if the cluster receives heartbeats of the partition node.", labels=["node"]
        )
        for node, condition in self._nodes.all():
            heard.add_metric([node.name], condition != "silent")
        yield heard
        unavailable = GaugeMetricFamily(
            f"{_PREFIX}unavailable_partitions",
            "Partitions of a topic on nodes that are silent, or that this gateway does not reach.",
            labels=["node", "stream", "topic"],
        )
        for found in self._nodes.unavailable():
            unavailable.add_metric([found.node, found.stream, found.topic], len(found.partition_ids))
        yield unavailable
