"""WebSocket compared with TCP on the same server in one run: cost of frames and masking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tests.performance.loads.load import Load, Target, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.results.metrics import Metric, at_most, each, ratios
from tests.performance.results.section import (
    CLIENT_CPU_PER_GB,
    CPU_PER_GB,
    MB_PER_SECOND,
    MEAN,
    P50,
    P99,
    Section,
)
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, topic
from tests.server_process import ServerProcess

TRANSPORTS = ("tcp", "websocket")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One load over either transport."""

    name: str
    load: Load
    goal: float
    """Maximum ratio of the average latency over WebSocket to that over TCP."""

    def row(self, transport: str) -> str:
        """Return the name of the row in the report."""
        return f"{self.name}, {transport}"


def run(bench: Workbench) -> Section:
    """Measure the case."""
    produce = Load(
        mode="produce",
        message_size_bytes=1000,
        messages_per_batch=1000,
        amount={"bytes": bench.scale.large_bytes // 2},
        warm_up_seconds=bench.scale.warm_up_seconds,
    )
    small = replace(
        produce, message_size_bytes=100, messages_per_batch=10, amount={"seconds": bench.scale.small_seconds}
    )
    comparisons = [
        Comparison("producers, 1000 B x 1000", produce, 1.15),
        Comparison("consumers, 1000 B x 1000", replace(produce, mode="consume"), 1.40),
        Comparison("producers, 100 B x 10", small, 1.15),
        Comparison("consumers, 100 B x 10", replace(small, mode="consume"), 1.40),
    ]
    with bench.server("websocket") as server:
        turns = dict(_turns(bench, server, comparisons))
        samples = alternate(turns, bench.scale.rounds, bench.started)
    rows = [comparison.row(transport) for comparison in comparisons for transport in TRANSPORTS]
    return Section(
        name="websocket",
        title="WebSocket beside TCP",
        columns=(MB_PER_SECOND, MEAN, P50, P99, CPU_PER_GB, CLIENT_CPU_PER_GB),
        samples={row: samples[row] for row in rows},
        metrics=[
            Metric(
                f"{comparison.name}: average latency / TCP",
                _overhead(samples, comparison),
                "",
                at_most(comparison.goal),
            )
            for comparison in comparisons
        ],
        notes=("4 connections. The client masks what it sends with a key of each message.",),
    )


def _overhead(samples: Mapping[str, list[Measurement]], comparison: Comparison) -> tuple[float, ...]:
    tcp, websocket = (
        each(samples[comparison.row(transport)], lambda run: run.mean_micros or 0.0) for transport in TRANSPORTS
    )
    return ratios(websocket, tcp)


def _turns(
    bench: Workbench, server: ServerProcess, comparisons: Iterable[Comparison]
) -> Iterable[tuple[str, Turn[Measurement]]]:
    """Return a turn of each transport for each comparison; consumers read the messages of their turn's producers."""
    for comparison in comparisons:
        for transport in TRANSPORTS:
            yield comparison.row(transport), _turn(bench, server, comparison, transport)


def _turn(bench: Workbench, server: ServerProcess, comparison: Comparison, transport: str) -> Turn[Measurement]:
    load = replace(comparison.load, transport=transport)

    def turn() -> Mapping[str, Measurement]:
        with topic(server, load.connections) as target:
            bench.recycle(bench.scale.large_bytes)
            if load.mode == "consume":
                run_native(replace(comparison.load, mode="produce"), target)
            address = server.websocket_address if transport == "websocket" else target.address
            return {comparison.row(transport): run_native(load, Target(address, target.pid))}

    return turn
