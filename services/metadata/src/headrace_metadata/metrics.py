"""Figures of one replica, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_metadata.errors import ListenError
from headrace_settings import Address

_BUCKETS_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_APPLY_SECONDS: Final = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_APPLY_COMMANDS: Final = (1, 2, 5, 10, 20, 50, 100, 500)
_ROLES: Final = ("primary", "backup", "view_change", "recovering", "stopped")
_PREFIX: Final = "headrace_metadata_"


class Metrics:
    """What is counted, and where it can be fetched."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Count from zero.

        Args:
            status: Returns what the native replica tells about itself; may be called from any thread.
        """
        self._registry = CollectorRegistry()
        self._registry.register(ReplicaCollector(status))
        ProcessCollector(registry=self._registry)
        self._commands = Counter(
            f"{_PREFIX}commands", "Proposed commands by what came of them.", ["outcome"], registry=self._registry
        )
        self._seconds = Histogram(
            f"{_PREFIX}propose_seconds",
            "Time from a proposal to its reply.",
            buckets=_BUCKETS_SECONDS,
            registry=self._registry,
        )
        self._applied = Histogram(
            f"{_PREFIX}apply_seconds",
            "Time to apply the commands of one entry of the log.",
            buckets=_APPLY_SECONDS,
            registry=self._registry,
        )
        self._together = Histogram(
            f"{_PREFIX}apply_commands",
            "Commands in one entry of the log.",
            buckets=_APPLY_COMMANDS,
            registry=self._registry,
        )

    def applied(self, commands_count: int, seconds: float) -> None:
        """Count what was applied in one go.

        Args:
            commands_count: How many commands.
            seconds: How long it took.
        """
        self._applied.observe(seconds)
        self._together.observe(commands_count)

    def proposed(self, outcome: str, seconds: float) -> None:
        """Count a proposal.

        Args:
            outcome: ``applied``, or the name of the error.
            seconds: How long it took.
        """
        self._commands.labels(outcome).inc()
        self._seconds.observe(seconds)

    @contextmanager
    def served(self, address: Address | None) -> Iterator[Address | None]:
        """Serve ``/metrics`` for the length of a ``with`` block; yields the address really bound.

        Args:
            address: Where; nowhere if there is none.

        Raises:
            ListenError: The address cannot be bound.
        """
        if address is None:
            yield None
            return
        try:
            server, thread = start_http_server(address.port, str(address.ip), self._registry)
        except OSError as error:
            raise ListenError(f"metrics cannot be served on {address}: {error.strerror}") from error
        try:
            yield address.with_port(server.server_port)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class ReplicaCollector(Collector):
    """The native replica's status: its counters, what it says about each peer, and every other number as a gauge."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Tell about a replica.

        Args:
            status: Returns what the native replica tells about itself; may be called from any thread.
        """
        self._status = status

    def describe(self) -> list[Metric]:
        """Nothing to compare with the others: the names are not known before the replica is asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Ask the replica."""
        status = self._status()
        role = GaugeMetricFamily(f"{_PREFIX}role", "1 for what this replica is now", labels=["role"])
        for name in _ROLES:
            role.add_metric([name], float(status.get("role") == name))
        yield role
        for name, value in _numbers(status):
            yield GaugeMetricFamily(f"{_PREFIX}{name}", f"{_words(name)} of this replica", value=value)
        for name, value in _numbers(status.get("storage", {})):
            yield GaugeMetricFamily(f"{_PREFIX}storage_{name}", f"storage: {_words(name)}", value=value)
        for name, value in _numbers(status.get("counters", {})):
            yield CounterMetricFamily(f"{_PREFIX}{name}", f"{_words(name)} since the start", value=value)
        families: dict[str, GaugeMetricFamily] = {}
        for peer in status.get("peers", ()):
            for name, value in _numbers(peer):
                if name != "replica":
                    family = families.setdefault(
                        name, GaugeMetricFamily(f"{_PREFIX}peer_{name}", f"peer: {_words(name)}", labels=["peer"])
                    )
                    family.add_metric([str(peer["replica"])], value)
        yield from families.values()


def _numbers(table: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((name, float(value)) for name, value in table.items() if isinstance(value, bool | int | float))


def _words(name: str) -> str:
    return name.replace("_", " ")
