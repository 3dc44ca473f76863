"""Cost per request: 4 connections, 100 bytes x 10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.performance.cases.comparison import FALLBACK, NULL, SERVER, contest, in_order, official_shares, row
from tests.performance.loads.load import Load
from tests.performance.loads.measurement import Measurement
from tests.performance.results.metrics import Metric, at_most, each, ratios
from tests.performance.results.section import CPU_PER_REQUEST, P50, P99, REQUESTS_PER_SECOND, Section
from tests.performance.rounds import alternate
from tests.performance.workbench import Workbench

WRITTEN_BYTES = 600_000_000
"""Approximate bytes written in a turn."""


def run(bench: Workbench) -> Section:
    """Measure the case."""
    produce = Load(
        mode="produce",
        message_size_bytes=100,
        messages_per_batch=10,
        amount={"seconds": bench.scale.small_seconds},
        warm_up_seconds=bench.scale.warm_up_seconds,
    )
    with contest(bench, produce, replace(produce, mode="consume"), WRITTEN_BYTES) as candidates:
        samples = alternate(candidates.turns, bench.scale.rounds, bench.started)
    return Section(
        name="small",
        title="4 connections, batches of 10 messages of 100 B",
        columns=(REQUESTS_PER_SECOND, P50, P99, CPU_PER_REQUEST),
        samples=in_order(samples, ("produce", "consume")),
        metrics=_metrics(samples),
    )


def _metrics(samples: Mapping[str, list[Measurement]]) -> list[Metric]:
    def cpu(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.cpu_micros_per_request)

    def rate(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.requests_per_second)

    metrics = []
    for operation, who in (("produce", "producers"), ("consume", "consumers")):
        null, server, fallback = (row(operation, candidate) for candidate in (NULL, SERVER, FALLBACK))
        metrics += [
            Metric(f"{who}: CPU per request / null listener", ratios(cpu(server), cpu(null)), "", at_most(1.4)),
            Metric(f"{who}: requests / null listener", ratios(rate(server), rate(null))),
            Metric(f"poll driver: {who}' CPU per request / ring", ratios(cpu(fallback), cpu(server))),
            Metric(f"poll driver: {who}' requests / ring", ratios(rate(fallback), rate(server))),
        ]
    return metrics + official_shares(samples, lambda run: run.requests_per_second)
