"""Reference of metrics: name, type, labels and meaning of everything that the services register."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase
from running_server import RunningServer
from tables import cell, code

import headrace_core
from headrace_gateway.observability.group_lags import GroupLags
from headrace_gateway.push.metrics import PushMetrics
from headrace_gateway.service.metrics import ClusterCollector, NodesCollector
from headrace_gateway.service.nodes import NodeConditions
from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings, StateSettings
from headrace_metadata.metrics import Metrics as ReplicaMetrics
from headrace_metadata.native import ReplicaDescription
from headrace_partition_node import metrics as node_metrics

INTRODUCTION: Final = """\
# Metrics

Made from the collectors of the services. `/metrics` has them in the text format of Prometheus, and
in OpenMetrics for clients that accept it: [observability](../observability.md) explains access and the most important
ones. A histogram `x` has the series `x_bucket`, `x_count` and `x_sum`.

"""
MEMBERS: Final = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
"""Replicas that nothing connects to: the native replica is described, not started with the others."""


@dataclass(frozen=True, order=True)
class Family:
    """One metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def families(source: Any) -> Iterator[Family]:
    """Yield the metrics of a registry, of a collector, or of a single metric."""
    if isinstance(source, CollectorRegistry):
        for collector in list(source._collector_to_names):  # noqa: SLF001 - the registry has no other list of them
            yield from families(collector)
    elif isinstance(source, MetricWrapperBase):
        for metric in source.describe():
            yield family(metric, source._labelnames)  # noqa: SLF001 - only samples have the labels in public
    elif isinstance(source, PushMetrics):
        yield from families(source._registry)  # noqa: SLF001 - it is a registry within a registry
    else:
        for metric in source.collect():
            yield family(metric, getattr(metric, "_labelnames", ()))


def family(metric: Metric, labels: Any) -> Family:
    """Return a metric with the name that its samples have."""
    suffix = "_total" if metric.type == "counter" else ""
    return Family(f"{metric.name}{suffix}", metric.type, tuple(labels), metric.documentation)


def embedded(server: RunningServer) -> set[Family]:
    """Return the metrics of an embedded server."""
    lags = GroupLags(mock.Mock(), partitions_max=0, interval_seconds=0, clock=time.time_ns, now=time.monotonic)
    groups = {family(metric, getattr(metric, "_labelnames", ())) for metric in lags.families(with_partitions=True)}
    return {found for registry in server.registries for found in families(registry)} | groups


def gateway() -> set[Family]:
    """Return the metrics that a gateway of a cluster has in addition to those of an embedded server."""
    view = SimpleNamespace(version=0, nodes=lambda: (), led_by=lambda _: ())
    catalog: Any = SimpleNamespace(view=view, age_seconds=0.0)
    sessions: Any = SimpleNamespace(repeats=0)
    collectors = (ClusterCollector(catalog, sessions, lambda: None), NodesCollector(NodeConditions(catalog, tuple)))
    return {found for collector in collectors for found in families(collector)}


def partition_node() -> set[Family]:
    """Return the metrics that a partition node has in addition to those of its shards."""
    snapshot: Any = SimpleNamespace(**dict.fromkeys(node_metrics.Metrics.__dataclass_fields__, 0))
    return {
        found
        for found in families(node_metrics.registry(lambda: snapshot, dict))
        if found.name.startswith("headrace_partition_node_")
    }


def metadata() -> set[Family]:
    """Return the metrics of a replica of the metadata service."""
    return set(families(ReplicaMetrics(replica_status).registry))


def replica_status() -> Mapping[str, Any]:
    """Return the status of one of three replicas."""
    with tempfile.TemporaryDirectory() as directory:
        cluster = ClusterSettings.model_validate({"members": MEMBERS, "listen": "127.0.0.1:0", "secret": "0" * 32})
        description = ReplicaDescription(
            directory=Path(directory), cluster=cluster, state=StateSettings(), tls=ReplicaTlsSettings()
        )
        replica = headrace_core.MetadataReplica(description.document())
        replica.start()
        try:
            # The thread of the replica writes its status after its first turn.
            deadline = time.monotonic() + 30
            status: dict[str, Any] = {}
            while not status.get("peers") and time.monotonic() < deadline:
                status = json.loads(replica.status_json())
            return status
        finally:
            replica.stop()


def render(server: RunningServer) -> str:
    """Return the page."""
    everywhere, replica = embedded(server), metadata()
    replica |= {found for found in everywhere if found.name.startswith("headrace_metadata_")}
    process = {found for found in everywhere if found.name.startswith("process_")}
    sections = {
        "Embedded servers, gateways and partition nodes": (
            "Partition nodes have those of the node, its shards, memory, commands and connections.",
            everywhere - process - replica,
        ),
        "Gateways of a cluster": ("In addition to the ones above, without those of a replica.", gateway()),
        "Partition nodes": ("In addition to those of the shards.", partition_node()),
        "Replicas of the metadata service": (
            "Also of an embedded server, except for histograms, commands and peers.",
            replica - process,
        ),
        "Processes": ("Of every service.", process),
    }
    parts = [INTRODUCTION]
    for title, (about, found) in sections.items():
        parts.append(f"## {title}\n\n{about}\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
        for entry in sorted(found):
            labels = ", ".join(code(label) for label in entry.labels)
            parts.append(f"| {code(entry.name)} | {entry.kind} | {labels} | {cell(entry.meaning)} |\n")
        parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"
