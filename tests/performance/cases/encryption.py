"""TLS compared with plain TCP: cost per byte, and cost of handshakes to connections without TLS (GW-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from tests.performance.loads.handshakes import hammering
from tests.performance.loads.load import Load, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.options import GB
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

PLAIN, TLS = "plain", "TLS"
QUIET = "small batches, nothing else"
ELSEWHERE = "small batches, handshakes with another server"
HERE = "small batches, handshakes with this server"
RATE = "handshakes per second"


def run(bench: Workbench) -> Section:
    """Measure the case."""
    produce = Load(
        mode="produce",
        message_size_bytes=1000,
        messages_per_batch=1000,
        amount={"bytes": min(bench.scale.large_bytes, 1 * GB)},
        warm_up_seconds=0.2,
    )
    small = replace(
        produce, message_size_bytes=100, messages_per_batch=10, amount={"seconds": bench.scale.small_seconds}
    )
    rates: dict[str, list[float]] = {ELSEWHERE: [], HERE: []}
    with ExitStack() as stack:
        # Enable TLS only on the WebSocket port, so that plain TCP runs on the same shards.
        plain = stack.enter_context(bench.server("plain", WEBSOCKET_TLS_ENABLED="true"))
        encrypted = stack.enter_context(bench.server("encrypted", TCP_TLS_ENABLED="true"))
        turns: dict[str, Turn[Measurement]] = {
            PLAIN: _large(bench, plain, PLAIN, plain.address, produce),
            TLS: _large(bench, encrypted, TLS, f"tls://{encrypted.address}?verify=no", produce),
            QUIET: _small(plain, QUIET, small),
            ELSEWHERE: _hammered(_small(plain, ELSEWHERE, small), encrypted.address, rates[ELSEWHERE]),
            HERE: _hammered(_small(plain, HERE, small), plain.websocket_address, rates[HERE]),
        }
        samples = alternate(turns, bench.scale.rounds, bench.started)

    def metrics(name: str, pick: Callable[[Measurement], float]) -> tuple[float, ...]:
        return each(samples[name], pick)

    def p99(name: str) -> tuple[float, ...]:
        return metrics(name, lambda run: run.p99_millis or 0.0)

    shown = [
        Metric(
            f"{operation}: {what}, TLS / plain",
            ratios(metrics(_row(operation, TLS), pick), metrics(_row(operation, PLAIN), pick)),
        )
        for operation in ("produce", "consume")
        for what, pick in (
            ("throughput", lambda run: run.mb_per_second),
            ("server CPU", lambda run: run.cpu_seconds_per_gb),
        )
    ]
    return Section(
        name="tls",
        title="4 connections, batches of 1000 messages of 1000 B; then plain TCP with 10 of 100 B beside handshakes",
        columns=(MB_PER_SECOND, MEAN, P50, P99, CPU_PER_GB, CLIENT_CPU_PER_GB),
        samples={row: samples[row] for row in (*_rows(), QUIET, ELSEWHERE, HERE)},
        metrics=[
            *shown,
            Metric(f"{QUIET}: p99", p99(QUIET), "ms"),
            *(
                metric
                for name in (ELSEWHERE, HERE)
                # Skip the warm-up round, which comes first.
                for metric in (
                    Metric(f"{name}: p99", p99(name), "ms"),
                    Metric(f"{name}: {RATE}", tuple(rates[name][1:])),
                )
            ),
            Metric(
                "p99 beside handshakes with this server / with another",
                ratios(p99(HERE), p99(ELSEWHERE)),
                "",
                at_most(1.5),
            ),
        ],
        notes=("The peer of a handshake shares the machine with both servers; the other run shows its own cost.",),
    )


def _row(operation: str, how: str) -> str:
    return f"{operation}, {how}"


def _rows() -> list[str]:
    return [_row(operation, how) for operation in ("produce", "consume") for how in (PLAIN, TLS)]


def _large(bench: Workbench, server: ServerProcess, how: str, address: str, load: Load) -> Turn[Measurement]:
    def turn() -> Mapping[str, Measurement]:
        with topic(server, load.connections, address) as target:
            bench.recycle(1 * GB)
            # Consume directly after producing: consumers read the messages just produced.
            produced = run_native(load, target)
            consumed = run_native(replace(load, mode="consume"), target)
        return {_row("produce", how): produced, _row("consume", how): consumed}

    return turn


def _small(server: ServerProcess, name: str, load: Load) -> Turn[Measurement]:
    def turn() -> Mapping[str, Measurement]:
        with topic(server, load.connections) as target:
            return {name: run_native(load, target)}

    return turn


def _hammered(turn: Turn[Measurement], address: str, rates: list[float]) -> Turn[Measurement]:
    def hammered() -> Mapping[str, Measurement]:
        with hammering(address) as rate:
            measured = turn()
        rates.extend(rate)
        return measured

    return hammered
