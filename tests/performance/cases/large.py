"""Cost per byte: 4 connections, 1000 bytes x 1000."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.performance.cases.comparison import FALLBACK, NULL, SERVER, contest, in_order, official_shares, row
from tests.performance.loads.load import Load, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.machine_limits import append_to_page_cache
from tests.performance.results.metrics import Metric, at_least, at_most, differences, each, ratios
from tests.performance.results.section import CLIENT_CPU_PER_GB, CPU_PER_GB, MB_PER_SECOND, P50, P99, Section
from tests.performance.rounds import alternate
from tests.performance.workbench import Workbench, topic

RAW = "append to a file, 1 MB writes, one thread"
RECENT = row("consume recent", SERVER)
RECENT_BYTES = 40_000_000
"""Bytes of all partitions together that stay within the tail caches with default settings."""


WARM_UP_SECONDS = 0.2
WARM_UP_BYTES = 400_000_000
"""Approximate bytes written during warm-up."""


def run(bench: Workbench) -> Section:
    """Measure the case."""
    written_bytes = bench.scale.large_bytes + WARM_UP_BYTES
    produce = Load(
        mode="produce",
        message_size_bytes=1000,
        messages_per_batch=1000,
        amount={"bytes": bench.scale.large_bytes},
        warm_up_seconds=WARM_UP_SECONDS,
    )
    consume = replace(produce, mode="consume")
    with contest(bench, produce, consume, written_bytes) as candidates:

        def consume_recent() -> Mapping[str, Measurement]:
            with topic(candidates.server, produce.connections) as target:
                run_native(replace(produce, amount={"bytes": RECENT_BYTES}, warm_up_seconds=0.0), target)
                return {RECENT: run_native(consume, target)}

        def raw() -> Mapping[str, Measurement]:
            bench.recycle(written_bytes)
            return {RAW: append_to_page_cache(bench.directory, bench.scale.large_bytes)}

        turns = {**candidates.turns, RECENT: consume_recent, RAW: raw}
        samples = alternate(turns, bench.scale.rounds, bench.started)
    return Section(
        name="large",
        title="4 connections, batches of 1000 messages of 1000 B",
        columns=(MB_PER_SECOND, P50, P99, CPU_PER_GB, CLIENT_CPU_PER_GB),
        samples=in_order(samples, ("produce", "consume"), RECENT, RAW),
        metrics=_metrics(samples),
        notes=(
            "CPU is that of the candidate, client CPU that of the load generator, both per GB of payload.",
            "Consumers read from the page cache what was produced just before; recent: what is still in memory.",
        ),
    )


def _metrics(samples: Mapping[str, list[Measurement]]) -> list[Metric]:
    def rate(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.mb_per_second)

    def cpu(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.cpu_seconds_per_gb)

    def client_cpu(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.client_cpu_seconds_per_gb or 0.0)

    null, server, fallback = (row("produce", candidate) for candidate in (NULL, SERVER, FALLBACK))
    consumed, consumed_fallback = row("consume", SERVER), row("consume", FALLBACK)
    metrics = [
        Metric("producers: throughput / null listener", ratios(rate(server), rate(null)), "", at_least(0.75)),
        Metric(
            "producers: that share, were the raw append all that is added",
            _possible_share(cpu(null), client_cpu(null), cpu(RAW)),
        ),
        Metric("producers: CPU - null listener", differences(cpu(server), cpu(null)), "s/GB", at_most(0.45)),
        Metric("producers: CPU - null listener - raw append", _beyond(cpu(server), cpu(null), cpu(RAW)), "s/GB"),
        Metric("producers: throughput / raw append", ratios(rate(server), rate(RAW))),
        Metric("consumers: CPU", cpu(consumed), "s/GB", at_most(0.40)),
        Metric("consumers: throughput / producers", ratios(rate(consumed), rate(server)), "", at_least(1.5)),
        Metric("recent consumers: CPU", cpu(RECENT), "s/GB"),
        Metric("poll driver: producers' throughput / ring", ratios(rate(fallback), rate(server))),
        Metric("poll driver: producers' CPU / ring", ratios(cpu(fallback), cpu(server))),
        Metric("poll driver: consumers' throughput / ring", ratios(rate(consumed_fallback), rate(consumed))),
        Metric("poll driver: consumers' CPU / ring", ratios(cpu(consumed_fallback), cpu(consumed))),
    ]
    return metrics + official_shares(samples, lambda run: run.mb_per_second)


def _possible_share(null: tuple[float, ...], client: tuple[float, ...], raw: tuple[float, ...]) -> tuple[float, ...]:
    """Return the possible share if CPU time is the limit: cost of a GB at the null listener, divided by that plus an
    append.
    """
    costs = [listener + generator for listener, generator in zip(null, client, strict=True)]
    return ratios(costs, [cost + append for cost, append in zip(costs, raw, strict=True)])


def _beyond(server: tuple[float, ...], null: tuple[float, ...], raw: tuple[float, ...]) -> tuple[float, ...]:
    """Return the cost of the server itself, without network and page cache, which no server can avoid."""
    return differences(differences(server, null), raw)
