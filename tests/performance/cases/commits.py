"""Durability `fsync`: partitions commit in parallel."""

from __future__ import annotations

from collections.abc import Mapping

from tests.performance.loads.load import Load, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.machine_limits import append_and_sync
from tests.performance.results.metrics import Metric, at_least, each, ratios
from tests.performance.results.section import CPU_PER_REQUEST, P50, P99, REQUESTS_PER_SECOND, Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, topic
from tests.server_process import ServerProcess

MANY = 16
MESSAGE_BYTES = 1000
MESSAGES = 10
WRITTEN_BYTES = 200_000_000
"""Upper bound of the bytes written in a turn."""


def run(bench: Workbench) -> Section:
    """Measure the case."""
    with bench.server("fsync", DURABILITY="fsync") as server:
        turns: dict[str, Turn[Measurement]] = {}
        for count in (1, MANY):
            turns[_raw(count)] = _raw_turn(bench, count)
            turns[_producers(count)] = _server_turn(bench, server, count)
        samples = alternate(turns, bench.scale.rounds, bench.started)
    ordered = [name(count) for name in (_producers, _raw) for count in (1, MANY)]

    def rate(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.requests_per_second)

    server_1, server_many, raw_1, raw_many = (rate(name) for name in ordered)
    return Section(
        name="fsync",
        title="durability fsync, batches of 10 messages of 1000 B, a partition for each producer",
        columns=(REQUESTS_PER_SECOND, P50, P99, CPU_PER_REQUEST),
        samples={name: samples[name] for name in ordered},
        metrics=[
            Metric(f"commits of {MANY} producers / of 1", ratios(server_many, server_1), "", at_least(4.0)),
            Metric(f"fdatasync loop: {MANY} threads / 1", ratios(raw_many, raw_1)),
            Metric("1 producer / 1 thread", ratios(server_1, raw_1)),
            Metric(f"{MANY} producers / {MANY} threads", ratios(server_many, raw_many)),
        ],
        notes=("A producer waits for its answer, so that a request is a commit.",),
    )


def _producers(count: int) -> str:
    return f"server, {count} producer{'s' * (count > 1)}"


def _raw(count: int) -> str:
    return f"write and fdatasync, {count} thread{'s' * (count > 1)}"


def _server_turn(bench: Workbench, server: ServerProcess, count: int) -> Turn[Measurement]:
    load = Load(
        mode="produce",
        connections=count,
        message_size_bytes=MESSAGE_BYTES,
        messages_per_batch=MESSAGES,
        amount={"seconds": bench.scale.commits_seconds},
        warm_up_seconds=bench.scale.warm_up_seconds / 2,
    )

    def turn() -> Mapping[str, Measurement]:
        with topic(server, count) as target:
            bench.recycle(WRITTEN_BYTES)
            return {_producers(count): run_native(load, target)}

    return turn


def _raw_turn(bench: Workbench, count: int) -> Turn[Measurement]:
    def turn() -> Mapping[str, Measurement]:
        bench.recycle(WRITTEN_BYTES)
        batch_bytes = MESSAGE_BYTES * MESSAGES
        return {_raw(count): append_and_sync(bench.directory, count, batch_bytes, bench.scale.commits_seconds)}

    return turn
