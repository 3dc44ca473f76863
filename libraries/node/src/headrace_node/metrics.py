"""Counters of the native side as metrics, read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_proto.errors import Status, find

Statistics = Callable[[], Mapping[str, Any]]
"""Counters of the node by their native names; under `listeners` those of the encrypted listeners."""

_MICROS: Final = 1_000_000
_COUNTERS: Final = {
    "accepted_connections": "Accepted connections, including those of the process to itself.",
    "received_bytes": "Bytes from connections, after decryption.",
    "sent_bytes": "Bytes to connections, before encryption.",
    "appended_messages": "Messages that were appended and acknowledged.",
    "appended_bytes": "Bytes of the requests that appended messages.",
    "polled_messages": "Messages sent to consumers.",
    "polled_bytes": "Bytes of these messages.",
    "storage_read_bytes": "Bytes read from the files of partitions: logs and indexes.",
    "published_messages": "Messages that were appended because their transactions were committed.",
    "missing_stages": "Missing stages of committed transactions, whose messages are lost.",
    "traces_dropped": "Trace records dropped because they were not collected in time.",
}
_GAUGES: Final = {
    "failed_partitions": "Partitions that are read-only or out of service after a failure.",
    "failing_files": "Other partitions with a file beside the log that cannot be written or read.",
    "foreign_partitions": "Failed partitions that are out of service because their directory is another's.",
    "set_aside_files": "Files in directories of partitions that were set aside: cut ends, logs, stages.",
    "set_aside_directories": "Directories in streams/set-aside, which no partition owns.",
}
"""Meanings of the gauges whose names do not say enough."""
_LISTENER_COUNTERS: Final = {
    "accepted": "Peers that connected to the encrypted listener; for `links`, nodes that were connected to.",
    "handshakes": "Handshakes that were completed.",
    "bytes_in": "Bytes of the protocol that peers sent, decrypted.",
    "bytes_out": "Bytes of the protocol that were sent to peers.",
}


class NodeCollector(Collector):
    """Counters of the node: some as metrics defined here, and every other number under its native name."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def describe(self) -> list[Metric]:
        """Return no names: they are not known before the first scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the counters of the node."""
        statistics = self._statistics()
        yield from _driver(statistics)
        yield from _gauges(statistics)
        yield from _scrub(statistics.get("scrub"))
        yield from _traffic(statistics.get("traffic", {}))
        yield from _listeners(statistics.get("listeners", {}))


def _driver(statistics: Mapping[str, Any]) -> Iterator[Metric]:
    if not statistics.get("driver"):
        return
    driver = GaugeMetricFamily(
        "headrace_node_driver_info",
        "Always 1; the labels are the I/O driver of the shards, and the reason if it is not io_uring.",
        labels=["driver", "reason"],
    )
    driver.add_metric([statistics["driver"], statistics.get("driver_reason", "")], 1)
    yield driver


def _gauges(statistics: Mapping[str, Any]) -> Iterator[Metric]:
    for name, value in statistics.items():
        if isinstance(value, int | float):
            meaning = _GAUGES.get(name, f"{name} of the node.")
            yield GaugeMetricFamily(f"headrace_node_{name}", meaning, value=value)
    by_shard: dict[str, GaugeMetricFamily] = {}
    for shard, counters in enumerate(statistics.get("shards", [])):
        for name, value in counters.items():
            if isinstance(value, int | float) and name != "shard":
                meaning = _GAUGES.get(name, f"{name} by shard.")
                family = by_shard.setdefault(
                    name, GaugeMetricFamily(f"headrace_shard_{name}", meaning, labels=["shard"])
                )
                family.add_metric([str(shard)], value)
    yield from by_shard.values()
    memory = GaugeMetricFamily("headrace_memory_bytes", "Memory of the budget by purpose.", labels=["purpose"])
    for purpose, size_bytes in statistics.get("memory_bytes", {}).items():
        memory.add_metric([purpose], size_bytes)
    yield memory
    waiting = GaugeMetricFamily("headrace_shard_mailbox_messages", "Queued messages by shard.", labels=["shard"])
    for shard, count in enumerate(statistics.get("mailboxes", [])):
        waiting.add_metric([str(shard)], count)
    yield waiting


def _scrub(scrub: Mapping[str, Any] | None) -> Iterator[Metric]:
    if scrub is None:
        return
    yield CounterMetricFamily(
        "headrace_scrub_bytes", "Bytes of files that the scrub has read and compared.", value=scrub["bytes"]
    )
    yield GaugeMetricFamily(
        "headrace_scrub_damaged_places",
        "Places in files of partitions that the scrub has found damaged, missing or another partition's.",
        value=scrub["damaged_places"],
    )
    yield GaugeMetricFamily(
        "headrace_scrub_pass_ended_timestamp_seconds",
        "Time at which the scrub ended its last whole pass, in seconds since 1970; 0 before the first one.",
        value=scrub["pass_ended_seconds"],
    )


def _traffic(traffic: Mapping[str, Any]) -> Iterator[Metric]:
    if not traffic:
        return
    durations = HistogramMetricFamily(
        "headrace_command_duration_seconds",
        "Time from the start of a request of the binary protocol, on any listener, to its response.",
        labels=["command"],
    )
    bounds = [f"{micros / _MICROS:g}" for micros in traffic["latency_bounds_micros"]] + ["+Inf"]
    for command, latencies in traffic["commands"].items():
        total = 0
        buckets = []
        for bound, count in zip(bounds, latencies["classes"], strict=True):
            total += count
            buckets.append((bound, total))
        durations.add_metric([command], buckets=buckets, sum_value=latencies["sum_micros"] / _MICROS)
    yield durations
    refusals = CounterMetricFamily(
        "headrace_command_refusals", "Answers of the binary protocol other than success.", labels=["code", "name"]
    )
    for code, count in traffic["refusals"].items():
        refusals.add_metric([code, _name_of(int(code))], count)
    yield refusals
    connections = GaugeMetricFamily("headrace_connections", "Client connections by transport.", labels=["transport"])
    for transport, count in traffic["connections"].items():
        connections.add_metric([transport], count)
    yield connections
    for name, meaning in _COUNTERS.items():
        yield CounterMetricFamily(f"headrace_{name}", meaning, value=traffic[name])
    yield CounterMetricFamily(
        "headrace_quota_delayed_seconds",
        "Time for which requests have waited because of quotas, counted when it ends.",
        value=traffic["quota_delayed_micros"] / _MICROS,
    )


def _name_of(code: int) -> str:
    return Status(code).name.lower() if find(code) is not None else "other"


def _listeners(listeners: Mapping[str, Any]) -> Iterator[Metric]:
    if not listeners:
        return
    counters = {
        name: CounterMetricFamily(f"headrace_listener_{name}", meaning, labels=["listener"])
        for name, meaning in _LISTENER_COUNTERS.items()
    }
    failures = CounterMetricFamily(
        "headrace_listener_failures", "Peers that did not become connections.", labels=["listener", "reason"]
    )
    connections = GaugeMetricFamily("headrace_listener_connections", "Open connections.", labels=["listener"])
    for listener, found in listeners.items():
        for name, family in counters.items():
            family.add_metric([listener], found[name])
        connections.add_metric([listener], found["open"])
        for reason, count in found["failures"].items():
            failures.add_metric([listener, reason], count)
    yield from (*counters.values(), connections, failures)
