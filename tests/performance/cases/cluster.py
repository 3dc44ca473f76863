"""Cost of the gateway: the same loads on the embedded server, on a node, and through a gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from tests.performance.deployment import Deployment, deployed
from tests.performance.loads.load import Load, Target, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.options import GB
from tests.performance.results.metrics import Goal, Metric, at_least, at_most, differences, each, ratios
from tests.performance.results.section import (
    CPU_PER_GB,
    MB_PER_SECOND,
    P50,
    P99,
    REQUESTS_PER_SECOND,
    Section,
)
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, topic
from tests.server_process import ServerProcess

EMBEDDED, DIRECT, GATEWAY = "embedded", "direct to the node", "through a gateway"
WAYS = (EMBEDDED, DIRECT, GATEWAY)
LARGE, SMALL, ALONE = "1000 x 1000 B", "10 x 100 B", "10 x 100 B, one connection"
THROUGHPUT_LEAST = at_least(0.6)
HOP_MICROS_MOST = at_most(60.0)
SMALL_WRITTEN_BYTES = 600_000_000

Pick = Callable[[Measurement], float]


@dataclass(frozen=True, slots=True)
class _Load:
    """One size of batches."""

    name: str
    produce: Load
    written_bytes: int


def run(bench: Workbench) -> Section:
    """Measure the case."""
    large_bytes = min(bench.scale.large_bytes, 1 * GB)
    large = Load(
        mode="produce",
        message_size_bytes=1000,
        messages_per_batch=1000,
        amount={"bytes": large_bytes},
        warm_up_seconds=0.2,
    )
    small = Load(
        mode="produce",
        message_size_bytes=100,
        messages_per_batch=10,
        amount={"seconds": bench.scale.small_seconds},
        warm_up_seconds=bench.scale.warm_up_seconds,
    )
    loads = (
        _Load(LARGE, large, 2 * large_bytes),
        _Load(SMALL, small, SMALL_WRITTEN_BYTES),
        _Load(ALONE, replace(small, connections=1), SMALL_WRITTEN_BYTES),
    )
    with bench.server("embedded") as server, deployed(bench.directory / "cluster") as deployment:
        turns = {}
        for load in loads:
            turns[f"{EMBEDDED}, {load.name}"] = _embedded(bench, server, load)
            turns[f"{DIRECT}, {load.name}"] = _remote(bench, deployment, deployment.direct, DIRECT, load)
            turns[f"{GATEWAY}, {load.name}"] = _remote(bench, deployment, deployment.through_gateway, GATEWAY, load)
        samples = alternate(turns, bench.scale.rounds, bench.started)
    return Section(
        name="cluster",
        title="4 connections, or one: the embedded server, a node with a ticket, a gateway in front of that node",
        columns=(MB_PER_SECOND, REQUESTS_PER_SECOND, P50, P99, CPU_PER_GB),
        samples={
            (row := _row(operation, load.name, way)): samples[row]
            for load in loads
            for operation in ("produce", "consume")
            for way in WAYS
        },
        metrics=_metrics(samples),
        notes=(
            "CPU is that of all processes that have a part in the work: the gateway's and the node's, or the node's.",
            "Everything shares this machine: with more connections than CPUs, latency is mostly the wait for one.",
        ),
    )


def _row(operation: str, load: str, way: str) -> str:
    return f"{operation} {load}, {way}"


def _embedded(bench: Workbench, server: ServerProcess, load: _Load) -> Turn[Measurement]:
    return lambda: _measured(bench, load, EMBEDDED, topic(server, load.produce.connections))


def _remote(bench: Workbench, deployment: Deployment, target: Target, way: str, load: _Load) -> Turn[Measurement]:
    def turn() -> Mapping[str, Measurement]:
        with deployment.topic(load.produce.connections):
            return _measured(bench, load, way, nullcontext(target))

    return turn


def _measured(
    bench: Workbench, load: _Load, way: str, place: AbstractContextManager[Target]
) -> Mapping[str, Measurement]:
    with place as target:
        bench.recycle(load.written_bytes)
        # Consume directly after producing: consumers read the messages just produced.
        produced = run_native(load.produce, target)
        consumed = run_native(replace(load.produce, mode="consume"), target)
    return {_row("produce", load.name, way): produced, _row("consume", load.name, way): consumed}


def _metrics(samples: Mapping[str, list[Measurement]]) -> list[Metric]:
    def taken(operation: str, load: str, way: str, pick: Pick) -> tuple[float, ...]:
        return each(samples[_row(operation, load, way)], pick)

    def rate(run: Measurement) -> float:
        return run.mb_per_second

    def cpu(run: Measurement) -> float:
        return run.cpu_seconds_per_gb

    def p50(run: Measurement) -> float:
        return run.p50_micros or 0.0

    def share(operation: str, load: str, way: str, beside: str, goal: Goal | None = None) -> Metric:
        values = ratios(taken(operation, load, way, rate), taken(operation, load, beside, rate))
        return Metric(f"{operation} {load}: throughput, {way} / {beside}", values, "", goal)

    metrics = []
    for operation in ("produce", "consume"):
        metrics += [
            share(operation, LARGE, GATEWAY, DIRECT, THROUGHPUT_LEAST),
            share(operation, LARGE, GATEWAY, EMBEDDED),
            share(operation, LARGE, DIRECT, EMBEDDED),
            share(operation, SMALL, GATEWAY, DIRECT),
        ]
        for load in (LARGE, SMALL):
            direct, gateway = (taken(operation, load, way, cpu) for way in (DIRECT, GATEWAY))
            metrics.append(Metric(f"{operation} {load}: CPU, gateway and node / node", ratios(gateway, direct)))
        for load, goal in ((SMALL, None), (ALONE, HOP_MICROS_MOST)):
            direct, gateway = (taken(operation, load, way, p50) for way in (DIRECT, GATEWAY))
            hop = differences(gateway, direct)
            metrics.append(Metric(f"{operation} {load}: p50, {GATEWAY} - {DIRECT}", hop, "us", goal))
    return metrics
