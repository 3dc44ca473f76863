"""Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import headrace_core as core
from headrace_chassis.metrics import registry
from headrace_gateway.json_api.errors import code_name
from headrace_gateway.observability.group_lags import GroupLags
from headrace_node.connections.sessions import Sessions
from headrace_proto.errors import Status
from headrace_proto.well_known import ROOT_USER_ID

_LATENCIES_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_COUNTED: Final = ("streams", "topics", "partitions", "segments", "messages", "users", "clients")


class Metrics:
    """Counts requests, and collects all other metrics on demand."""

    def __init__(
        self, sessions: Sessions, lags: GroupLags, collectors: Sequence[Collector], named: Sequence[Collector]
    ) -> None:
        """Start with zero.

        Args:
            sessions: Sessions with the node.
            lags: Lag of consumer groups.
            collectors: Metrics of other parts of the process.
            named: Metrics with names of nodes, streams and topics.
        """
        self._sessions = sessions
        self._lags = lags
        self._named = named
        self._registry = registry(*collectors)
        self._requests = Counter("http_requests", "Total number of HTTP requests.", registry=self._registry)
        self._durations = Histogram(
            "headrace_http_request_duration_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ["method", "route", "status"],
            buckets=_LATENCIES_SECONDS,
            registry=self._registry,
        )
        self._errors = Counter(
            "headrace_http_errors",
            "Refused requests by status code of the binary protocol.",
            ["code", "name"],
            registry=self._registry,
        )
        self._counted = {name: Gauge(name, f"total count of {name}.", registry=self._registry) for name in _COUNTED}

    def register(self, collector: Collector) -> None:
        """Add a collector."""
        self._registry.register(collector)

    def received(self) -> None:
        """Count a request."""
        self._requests.inc()

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record the duration of an answer. The route is the pattern, a label of low cardinality."""
        self._durations.labels(method, route, str(status)).observe(seconds)

    def refused(self, code: int) -> None:
        """Count a refusal."""
        self._errors.labels(str(code), code_name(code)).inc()

    async def text(self, accept: str, *, with_names: bool, with_partitions: bool) -> tuple[bytes, str]:
        """Return all metrics in the accepted format, with the content type.

        Args:
            accept: Header `Accept`.
            with_names: Include metrics that name nodes, streams, topics and groups.
            with_partitions: Include their metrics by partition.
        """
        await self._count()
        everything: Collector = self._registry
        if with_names:
            await self._lags.refresh()
            everything = _Everything(self._registry, self._named, self._lags, with_partitions=with_partitions)
        encode, content_type = _encoder(accept)
        if content_type.startswith("application/openmetrics-text"):
            return encode(everything), content_type
        # The end mark is a comment in this format, and existing readers expect it.
        return generate_latest(everything) + b"# EOF\n", "text/plain; charset=utf-8"

    async def _count(self) -> None:
        answer = await self._sessions.call(ROOT_USER_ID, *core.encode_get_stats())
        if answer.status == Status.OK:
            stats = core.decode_stats(answer.payload)
            for name in _COUNTED:
                if name != "users":
                    self._counted[name].set(getattr(stats, f"{name}_count"))
        answer = await self._sessions.call(ROOT_USER_ID, *core.encode_get_users())
        if answer.status == Status.OK:
            self._counted["users"].set(len(core.decode_users(answer.payload)))


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept)
    except TypeError:
        # The library compares parts of a version that are no numbers with numbers.
        return choose_encoder("")


class _Everything(Collector):
    """The metrics of one answer, according to the options of the request."""

    def __init__(
        self, registry: CollectorRegistry, named: Sequence[Collector], lags: GroupLags, *, with_partitions: bool
    ) -> None:
        self._registry = registry
        self._named = named
        self._lags = lags
        self._with_partitions = with_partitions

    def collect(self) -> Iterator[Metric]:
        yield from self._registry.collect()
        for collector in self._named:
            yield from collector.collect()
        yield from self._lags.families(with_partitions=self._with_partitions)
