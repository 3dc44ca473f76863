"""Metrics of one replica, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_chassis.lifecycle import Health
from headrace_chassis.metrics import numbers, registry

_BUCKETS_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_APPLY_SECONDS: Final = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_APPLY_COMMANDS: Final = (1, 2, 5, 10, 20, 50, 100, 500)
_ROLES: Final = ("primary", "backup", "view_change", "recovering", "stopped")
_PREFIX: Final = "headrace_metadata_"
_AT_WORK: Final = ("primary", "backup")
"""Roles of a working replica."""


class Metrics:
    """Metrics of a replica, and its health."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Start with zero.

        Args:
            status: Returns the status of the native replica; may be called from any thread.
        """
        self._status = status
        self.registry: Final = registry(ReplicaCollector(status))
        """All metrics of the process."""
        self._commands = Counter(
            f"{_PREFIX}commands", "Proposed commands by outcome.", ["outcome"], registry=self.registry
        )
        self._seconds = Histogram(
            f"{_PREFIX}propose_seconds",
            "Time from a proposal to its reply.",
            buckets=_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self._applied = Histogram(
            f"{_PREFIX}apply_seconds",
            "Time to apply the commands of one entry of the log.",
            buckets=_APPLY_SECONDS,
            registry=self.registry,
        )
        self._together = Histogram(
            f"{_PREFIX}apply_commands",
            "Commands in one entry of the log.",
            buckets=_APPLY_COMMANDS,
            registry=self.registry,
        )

    def applied(self, commands_count: int, seconds: float) -> None:
        """Count a batch of applied commands.

        Args:
            commands_count: Number of commands.
            seconds: Duration.
        """
        self._applied.observe(seconds)
        self._together.observe(commands_count)

    def proposed(self, outcome: str, seconds: float) -> None:
        """Count a proposal.

        Args:
            outcome: ``applied``, or the name of the error.
            seconds: Duration.
        """
        self._commands.labels(outcome).inc()
        self._seconds.observe(seconds)

    def health(self) -> Health:
        """Return the role of the replica as its health."""
        role = str(self._status().get("role"))
        return Health(role, is_ready=role in _AT_WORK)


class ReplicaCollector(Collector):
    """Status of the native replica: its counters, values about each peer, and every other number as a gauge."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Describe the source.

        Args:
            status: Returns the status of the native replica; may be called from any thread.
        """
        self._status = status

    def describe(self) -> list[Metric]:
        """Return nothing: the metric names are known only from the status of the replica."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the status of the replica."""
        status = self._status()
        role = GaugeMetricFamily(f"{_PREFIX}role", "1 for the current state of this replica", labels=["role"])
        for name in _ROLES:
            role.add_metric([name], float(status.get("role") == name))
        yield role
        for name, value in numbers(status):
            yield GaugeMetricFamily(f"{_PREFIX}{name}", f"{_words(name)} of this replica", value=value)
        for name, value in numbers(status.get("storage", {})):
            yield GaugeMetricFamily(f"{_PREFIX}storage_{name}", f"storage: {_words(name)}", value=value)
        for name, value in numbers(status.get("clock", {})):
            yield GaugeMetricFamily(f"{_PREFIX}clock_{name}", f"clock: {_words(name)}", value=value)
        for name, value in numbers(status.get("state", {})):
            yield GaugeMetricFamily(f"{_PREFIX}{name}", f"{_words(name)} in the applied state", value=value)
        for name, value in numbers(status.get("counters", {})):
            yield CounterMetricFamily(f"{_PREFIX}{name}", f"{_words(name)} since the start", value=value)
        families: dict[str, GaugeMetricFamily] = {}
        for peer in status.get("peers", ()):
            for name, value in numbers(peer):
                if name != "replica":
                    family = families.setdefault(
                        name, GaugeMetricFamily(f"{_PREFIX}peer_{name}", f"peer: {_words(name)}", labels=["peer"])
                    )
                    family.add_metric([str(peer["replica"])], value)
        yield from families.values()


def _words(name: str) -> str:
    return name.replace("_", " ")
