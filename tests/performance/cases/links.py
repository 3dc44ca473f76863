"""Cost of encrypted links: the same loads through a gateway, with plain links and with TLS to the node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tests.performance.deployment import Deployment, deployed
from tests.performance.loads.load import Load, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.options import GB
from tests.performance.results.metrics import Metric, differences, each, ratios
from tests.performance.results.section import (
    CPU_PER_GB,
    MB_PER_SECOND,
    P50,
    P99,
    REQUESTS_PER_SECOND,
    Section,
)
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench

PLAIN, TLS = "plain links", "TLS links"
LARGE, ALONE = "1000 x 1000 B", "10 x 100 B, one connection"
ALONE_WRITTEN_BYTES = 600_000_000


@dataclass(frozen=True, slots=True)
class _Load:
    """One size of batches."""

    name: str
    produce: Load
    written_bytes: int


def run(bench: Workbench) -> Section:
    """Measure the case."""
    scale = bench.scale
    large_bytes = min(scale.large_bytes, 1 * GB)
    amount = {"bytes": large_bytes}
    large = Load(mode="produce", message_size_bytes=1000, messages_per_batch=1000, amount=amount, warm_up_seconds=0.2)
    alone = Load(
        mode="produce",
        message_size_bytes=100,
        messages_per_batch=10,
        amount={"seconds": scale.small_seconds},
        warm_up_seconds=scale.warm_up_seconds,
        connections=1,
    )
    loads = (_Load(LARGE, large, 2 * large_bytes), _Load(ALONE, alone, ALONE_WRITTEN_BYTES))
    with ExitStack() as stack:
        clusters = {
            links: stack.enter_context(deployed(bench.directory / f"links-{index}", is_encrypted=links == TLS))
            for index, links in enumerate((PLAIN, TLS))
        }
        turns = {
            f"{load.name}, {links}": _turn(bench, load, links, cluster)
            for load in loads
            for links, cluster in clusters.items()
        }
        samples = alternate(turns, scale.rounds, bench.started)
    return Section(
        name="links",
        title="through a gateway, over 4 connections or one: plain links with the node, and TLS",
        columns=(MB_PER_SECOND, REQUESTS_PER_SECOND, P50, P99, CPU_PER_GB),
        samples={
            (row := _row(operation, load.name, links)): samples[row]
            for load in loads
            for operation in ("produce", "consume")
            for links in clusters
        },
        metrics=_metrics(samples),
        notes=("CPU is that of the gateway and the node; handshakes are over before anything is measured.",),
    )


def _row(operation: str, load: str, links: str) -> str:
    return f"{operation} {load}, {links}"


def _turn(bench: Workbench, load: _Load, links: str, cluster: Deployment) -> Turn[Measurement]:
    def turn() -> Mapping[str, Measurement]:
        with cluster.topic(load.produce.connections):
            bench.recycle(load.written_bytes)
            # Consume directly after producing: consumers read the messages just produced.
            produced = run_native(load.produce, cluster.through_gateway)
            consumed = run_native(replace(load.produce, mode="consume"), cluster.through_gateway)
        return {_row("produce", load.name, links): produced, _row("consume", load.name, links): consumed}

    return turn


def _metrics(samples: Mapping[str, list[Measurement]]) -> list[Metric]:
    def taken(operation: str, load: str, links: str, pick: Callable[[Measurement], float]) -> tuple[float, ...]:
        return each(samples[_row(operation, load, links)], pick)

    metrics = []
    for operation in ("produce", "consume"):
        for what, pick in (("throughput", _rate), ("CPU", _cpu)):
            plain, encrypted = (taken(operation, LARGE, links, pick) for links in (PLAIN, TLS))
            metrics.append(Metric(f"{operation} {LARGE}: {what}, {TLS} / {PLAIN}", ratios(encrypted, plain)))
        plain, encrypted = (taken(operation, ALONE, links, _p50) for links in (PLAIN, TLS))
        metrics.append(Metric(f"{operation} {ALONE}: p50, {TLS} - {PLAIN}", differences(encrypted, plain), "us"))
    return metrics


def _rate(run: Measurement) -> float:
    return run.mb_per_second


def _cpu(run: Measurement) -> float:
    return run.cpu_seconds_per_gb


def _p50(run: Measurement) -> float:
    return run.p50_micros or 0.0
