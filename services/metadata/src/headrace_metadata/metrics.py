"""Metrics of one replica, in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from headrace_metadata.errors import ListenError
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Address

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_BUCKETS_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_APPLY_SECONDS: Final = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_APPLY_COMMANDS: Final = (1, 2, 5, 10, 20, 50, 100, 500)
_ROLES: Final = ("primary", "backup", "view_change", "recovering", "stopped")
_PREFIX: Final = "headrace_metadata_"
_AT_WORK: Final = ("primary", "backup")
"""Roles of a working replica."""
_CHALLENGE: Final = ("WWW-Authenticate", "Bearer")


class Metrics:
    """Counters of a replica, and their HTTP server."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        """Start with zero.

        Args:
            status: Returns the status of the native replica; may be called from any thread.
        """
        self._status = status
        self._registry = CollectorRegistry()
        self._registry.register(ReplicaCollector(status))
        ProcessCollector(registry=self._registry)
        self._commands = Counter(
            f"{_PREFIX}commands", "Proposed commands by outcome.", ["outcome"], registry=self._registry
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

    @contextmanager
    def served(self, address: Address | None, authorizations: Sequence[str] = ()) -> Iterator[Address | None]:
        """Serve ``/metrics`` and ``/health`` for the duration of a ``with`` block; yield the address actually bound.

        Args:
            address: Address to listen on; None: do not serve.
            authorizations: Accepted values of the header ``Authorization`` for ``/metrics``; empty: no authentication.

        Raises:
            ListenError: The address cannot be bound.
        """
        if address is None:
            yield None
            return
        site = _Site(self._registry, self._status, authorizations)
        try:
            server = make_server(str(address.ip), address.port, site, ThreadingWSGIServer, handler_class=_Silent)
        except OSError as error:
            raise ListenError(f"metrics cannot be served on {address}: {error.strerror}") from error
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield address.with_port(server.server_port)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Site:
    """HTTP endpoints: metrics for authenticated callers, health of the replica for all."""

    def __init__(
        self, registry: CollectorRegistry, status: Callable[[], Mapping[str, Any]], authorizations: Sequence[str]
    ) -> None:
        self._metrics = make_wsgi_app(registry)
        self._status = status
        self._expected = authorizations

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO")
        if path == "/health":
            role = str(self._status().get("role"))
            return _plain(start_response, "200 OK" if role in _AT_WORK else "503 Service Unavailable", role)
        if path != "/metrics":
            return _plain(start_response, "404 Not Found", "metrics are at /metrics")
        presented = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1")
        if self._expected and not is_one_of(presented, self._expected):
            return _plain(start_response, "401 Unauthorized", "the cluster's metrics token is required", _CHALLENGE)
        metrics: Iterable[bytes] = self._metrics(environ, start_response)
        return metrics


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Do not log requests."""


def _plain(start_response: StartResponse, status: str, text: str, *headers: tuple[str, str]) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [f"{text}\n".encode()]


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
        for name, value in _numbers(status):
            yield GaugeMetricFamily(f"{_PREFIX}{name}", f"{_words(name)} of this replica", value=value)
        for name, value in _numbers(status.get("storage", {})):
            yield GaugeMetricFamily(f"{_PREFIX}storage_{name}", f"storage: {_words(name)}", value=value)
        for name, value in _numbers(status.get("clock", {})):
            yield GaugeMetricFamily(f"{_PREFIX}clock_{name}", f"clock: {_words(name)}", value=value)
        for name, value in _numbers(status.get("state", {})):
            yield GaugeMetricFamily(f"{_PREFIX}{name}", f"{_words(name)} in the applied state", value=value)
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
