"""Connectors: rows per second of sources and sinks, fan-out, and single rows, in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from tests.performance.cases.connectors.endpoints import Endpoints
from tests.performance.cases.connectors.files import Files
from tests.performance.cases.connectors.influx import Influx
from tests.performance.cases.connectors.postgresql import ONCE, POLLING, SPREAD, Postgresql
from tests.performance.cases.connectors.runs import BATCH, DESTINATIONS, ONE_BY_ONE, LeftOut, Measurements, Runs
from tests.performance.cases.connectors.search import Search
from tests.performance.cases.connectors.sinks import Sinks
from tests.performance.results.metrics import Metric, at_least, at_most, ratios
from tests.performance.results.section import Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench

GROUPS: Final[Sequence[type[Measurements]]] = (Postgresql, Files, Search, Influx, Endpoints, Sinks)


def run(bench: Workbench) -> Section:
    """Measure the case: all connectors, or those that `--connector` chooses."""
    rows = max(1000, bench.scale.large_bytes // 50_000)
    note = (
        f"{rows:,} rows of about 100 B as JSON (OpenSearch: a third of them), batches of {BATCH:,}, from the start of "
        "the connector until the last row is stored. All servers, the callers and the connector are on this machine. "
        "One row at a time: sources send each message by itself and await it; sinks write it, flush it and store its "
        "offset. Topics exist."
    )
    notes = [note]
    with bench.server("connectors") as server:
        runs = Runs(bench, server, rows)
        runs.fill()
        with prepared(runs, bench.connectors, bench.started, notes) as turns:
            samples = alternate(turns, bench.scale.rounds, bench.started)
    return Section(name="connectors", title="sources and sinks of connectors", metrics=_metrics(samples), notes=notes)


@contextmanager
def prepared(
    runs: Runs, texts: Sequence[str], started: Callable[[str], None], notes: list[str]
) -> Iterator[Mapping[str, Turn[float]]]:
    """Set up what the chosen measurements need, for a ``with`` block; the value is these measurements.

    Args:
        runs: Runs connectors.
        texts: Texts in the names of measurements; empty: all of them.
        started: Called with a description of each step.
        notes: Gets the reason of what is left out.
    """
    turns: dict[str, Turn[float]] = {}
    known: list[str] = []
    with ExitStack() as stack:
        for group in (kind(runs) for kind in GROUPS):
            known += group.turns()
            chosen = {name: turn for name, turn in group.turns().items() if is_chosen(name, texts)}
            if not chosen:
                continue
            started("preparing " + ", ".join(chosen))
            try:
                stack.enter_context(group.prepared())
            except LeftOut as reason:
                notes.append(str(reason))
                continue
            turns |= chosen
        if not turns:
            notes.append(f"nothing was measured; there are: {'; '.join(known)}")
        yield turns


def is_chosen(name: str, texts: Sequence[str]) -> bool:
    """Return whether a measurement is one of those that `--connector` chooses."""
    return not texts or any(text in name for text in texts)


def _metrics(samples: Mapping[str, Sequence[float]]) -> list[Metric]:
    metrics = [
        Metric(name, tuple(values), "requests/s" if name.endswith("requests") else "rows/s")
        for name, values in samples.items()
    ]
    if SPREAD in samples and POLLING in samples:
        name = f"{POLLING}: time of {DESTINATIONS} topics, one topic = 1"
        metrics.append(Metric(name, ratios(samples[POLLING], samples[SPREAD]), goal=at_most(1.3)))
    if ONCE in samples and POLLING in samples:
        name = f"{POLLING}: rows/s exactly once, at least once = 1"
        metrics.append(Metric(name, ratios(samples[ONCE], samples[POLLING])))
    for name, values in samples.items():
        if (alone := samples.get(name + ONE_BY_ONE)) is not None:
            metrics.append(Metric(f"{name}: rows/s{ONE_BY_ONE} = 1", ratios(values, alone), goal=at_least(1.0)))
    return metrics
