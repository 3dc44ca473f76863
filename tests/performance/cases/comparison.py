"""Comparison of the server on both of its drivers with the null listener: one load to produce, one to consume."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.performance.loads.load import Load, Target, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.results.metrics import Metric, each, ratios
from tests.performance.rounds import Turn
from tests.performance.workbench import Workbench, topic
from tests.server_process import ServerProcess

NULL = "null listener"
SERVER = "server"
FALLBACK = "server, poll driver"
OFFICIAL = "server, official client"
OFFICIAL_NULL = "null listener, official client"
CANDIDATES = (NULL, SERVER, FALLBACK, OFFICIAL_NULL, OFFICIAL)

Runner = Callable[[Load, Target], Measurement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Running servers and the loads on them."""

    server: ServerProcess
    turns: Mapping[str, Turn[Measurement]]


def row(operation: str, candidate: str) -> str:
    """Return the name of a row."""
    return f"{operation}: {candidate}"


@contextmanager
def contest(bench: Workbench, produce: Load, consume: Load, written_bytes: int) -> Generator[Contest]:
    """Start every candidate; each turn produces, consumes the produced messages and deletes them.

    Args:
        bench: Workbench of the run.
        produce: Load to produce.
        consume: Load to consume.
        written_bytes: Approximate bytes written in a turn.
    """
    with ExitStack() as stack:
        server = stack.enter_context(bench.server("server"))
        fallback = stack.enter_context(bench.server("fallback", RUNTIME_DRIVER="poll"))
        null = stack.enter_context(bench.null(produce.message_size_bytes, produce.messages_per_batch))

        def against_null(candidate: str, runner: Runner) -> Turn[Measurement]:
            return lambda: _both(candidate, runner, null)

        def against_server(candidate: str, runner: Runner, process: ServerProcess) -> Turn[Measurement]:
            def turn() -> Mapping[str, Measurement]:
                with topic(process, produce.connections) as target:
                    bench.recycle(written_bytes)
                    return _both(candidate, runner, target)

            return turn

        def _both(candidate: str, runner: Runner, target: Target) -> Mapping[str, Measurement]:
            # Consume directly after producing: consumers read the messages just produced.
            produced = runner(produce, target)
            return {row("produce", candidate): produced, row("consume", candidate): runner(consume, target)}

        turns = {
            NULL: against_null(NULL, run_native),
            SERVER: against_server(SERVER, run_native, server),
            FALLBACK: against_server(FALLBACK, run_native, fallback),
        }
        if bench.official is not None:
            turns[OFFICIAL_NULL] = against_null(OFFICIAL_NULL, bench.official.run)
            turns[OFFICIAL] = against_server(OFFICIAL, bench.official.run, server)
        yield Contest(server=server, turns=turns)


def in_order(
    samples: Mapping[str, list[Measurement]], operations: tuple[str, ...], *others: str
) -> dict[str, list[Measurement]]:
    """Return the rows sorted by operation, then by candidate; `others` last."""
    names = [row(operation, candidate) for operation in operations for candidate in CANDIDATES] + list(others)
    return {name: samples[name] for name in names if name in samples}


def official_shares(samples: Mapping[str, Sequence[Measurement]], pick: Callable[[Measurement], float]) -> list[Metric]:
    """Return the official client's results as shares of its results against the null listener, if it took part."""
    metrics = []
    for operation, who in (("produce", "producers"), ("consume", "consumers")):
        server, null = row(operation, OFFICIAL), row(operation, OFFICIAL_NULL)
        if server in samples:
            shares = ratios(each(samples[server], pick), each(samples[null], pick))
            metrics.append(Metric(f"official client, {who}: throughput / null listener", shares))
    return metrics
