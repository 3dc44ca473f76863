"""Metrics of connectors, with few series: none has a label for a destination."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_connectors.admission.table import REASONS
from headrace_connectors.contract import Lag
from headrace_connectors.counters import CREATE_SECONDS, Counters, SinkCounters
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.status import State

PREFIXES: Final = ("headrace_connector", "iggy_connector")
"""Every metric is there under both: dashboards made for the second prefix keep working."""
_LABELS: Final = ("connector_key",)


class ConnectorCollector(Collector):
    """Reads the counters of all connectors at each scrape.

    Args:
        connectors: Returns the connectors.
        lag_of: Returns the newest lag that is known of a connector, by its key.
    """

    def __init__(
        self, connectors: Callable[[], Sequence[Connector]], lag_of: Callable[[str], Lag | None] = lambda _key: None
    ) -> None:
        self._connectors = connectors
        self._lag_of = lag_of

    def describe(self) -> list[Metric]:
        """Return no names: they are those of `collect`."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the counters."""
        connectors = self._connectors()
        for prefix in PREFIXES:
            yield from _routing(prefix, connectors)
            yield from _writing(prefix, connectors)
            yield from _progress(prefix, connectors)
            yield self._lag(prefix, connectors)

    def _lag(self, prefix: str, connectors: Sequence[Connector]) -> Metric:
        lag = GaugeMetricFamily(
            f"{prefix}_lag",
            "Distance from the end of what the connector reads, by unit.",
            labels=(*_LABELS, "unit"),
        )
        for connector in connectors:
            if (found := self._lag_of(connector.key)) is not None:
                lag.add_metric([connector.key, found.unit], found.behind)
        return lag


def _routing(prefix: str, connectors: Sequence[Connector]) -> Iterator[Metric]:
    routed = CounterMetricFamily(f"{prefix}_messages_routed", "Messages that were stored.", labels=_LABELS)
    active = GaugeMetricFamily(f"{prefix}_destinations_active", "Destinations in use.", labels=_LABELS)
    circuits = GaugeMetricFamily(
        f"{prefix}_destination_circuit_open", "Destinations that are refused because they keep failing.", labels=_LABELS
    )
    refused = CounterMetricFamily(
        f"{prefix}_destinations_rejected",
        "Records that were refused, by reason.",
        labels=(*_LABELS, "reason"),
    )
    unmatched = CounterMetricFamily(
        f"{prefix}_routing_unmatched",
        "Records without a destination, by what happened to them.",
        labels=(*_LABELS, "action"),
    )
    creation = HistogramMetricFamily(
        f"{prefix}_destination_create_latency_seconds",
        "Time that the first use of a destination took to look it up or create it.",
        labels=_LABELS,
    )
    for source in connectors:
        key, counters = source.key, source.counters
        if not isinstance(counters, Counters):
            continue
        routed.add_metric([key], counters.routed)
        active.add_metric([key], source.destinations_count)
        circuits.add_metric([key], source.open_circuits_count)
        for reason in REASONS:
            refused.add_metric([key, reason], counters.refused[reason])
        for action in ("default", "drop", "error"):
            unmatched.add_metric([key, action], counters.unmatched[action])
        bounds = (*map(str, CREATE_SECONDS), "+Inf")
        buckets = list(zip(bounds, map(float, accumulate(counters.create_buckets)), strict=True))
        creation.add_metric([key], buckets, sum_value=counters.create_seconds)
    yield from (routed, active, circuits, refused, unmatched, creation)


def _writing(prefix: str, connectors: Sequence[Connector]) -> Iterator[Metric]:
    written = CounterMetricFamily(f"{prefix}_records_written", "Records that a sink has written.", labels=_LABELS)
    letters = CounterMetricFamily(
        f"{prefix}_dead_letters", "Messages that a sink has sent to a dead-letter topic.", labels=_LABELS
    )
    for sink in connectors:
        if isinstance(sink.counters, SinkCounters):
            written.add_metric([sink.key], sink.counters.written)
            letters.add_metric([sink.key], sink.counters.dead_letters)
    yield from (written, letters)


def _progress(prefix: str, connectors: Sequence[Connector]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        f"{prefix}_state", "1 for the state of the connector, 0 for the others.", labels=(*_LABELS, "state")
    )
    failures = GaugeMetricFamily(
        f"{prefix}_consecutive_failures", "Failures since the last batch that was committed.", labels=_LABELS
    )
    batches = CounterMetricFamily(
        f"{prefix}_batches_committed", "Batches that were stored and committed.", labels=_LABELS
    )
    invalid = CounterMetricFamily(
        f"{prefix}_records_invalid",
        "Records that could not be converted.",
        labels=_LABELS,
    )
    for connector in connectors:
        for one in State:
            state.add_metric([connector.key, one], float(connector.status.state is one))
        failures.add_metric([connector.key], connector.status.consecutive_failures)
        batches.add_metric([connector.key], connector.status.batches_count)
        invalid.add_metric([connector.key], connector.invalid_count)
    yield from (state, failures, batches, invalid)
