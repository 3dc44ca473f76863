"""Results of the load generator as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.cli import output

Report = dict[str, Any]

_PERCENTILES = (
    ("p50", "p50_micros"),
    ("p90", "p90_micros"),
    ("p99", "p99_micros"),
    ("p99.9", "p99_9_micros"),
    ("p99.99", "p99_99_micros"),
    ("longest", "max_micros"),
)


def print_report(report: Report) -> None:
    """Print one run: a row per metric, a column for producers and one for consumers."""
    groups = _groups(report)
    rows = [(name, *(_shown(name, metrics.get(name)) for metrics in groups.values())) for name in _names(groups)]
    output.print_table(("", *groups), rows)
    _print_cpu(report)


def print_comparison(report: Report, null: Report) -> None:
    """Print a run next to the same load against the null listener, with the ratio of the two."""
    groups, baselines = _groups(report), _groups(null)
    for group, metrics in groups.items():
        baseline = baselines.get(group, {})
        rows = []
        for name, value in metrics.items():
            other = baseline.get(name)
            share = f"{value / other:.2f}" if other else ""
            rows.append((name, _shown(name, value), _shown(name, other), share))
        output.print_table((group, "server", "null listener", "share"), rows)
        output.stdout().print()
    _print_cpu(report, "server ")
    _print_cpu(null, "null listener ")


def _groups(report: Report) -> dict[str, dict[str, float]]:
    groups = ((name, report.get(name)) for name in ("producers", "consumers"))
    return {name: dict(_metrics(group)) for name, group in groups if group}


def _metrics(group: dict[str, Any]) -> Iterator[tuple[str, float]]:
    yield "MB/s", group["payload_mb_per_second"]
    yield "messages/s", group["messages_per_second"]
    yield "requests", group["requests"]
    yield "seconds", group["wall_seconds"]
    latency = group.get("latency_from_due") or group["latency"]
    for name, key in _PERCENTILES:
        yield f"{name} (ms)", latency[key] / 1000


def _names(groups: dict[str, dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for metrics in groups.values() for name in metrics))


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name.endswith("(ms)"):
        return f"{value:,.3f}"
    return f"{value:,.0f}" if name in {"messages/s", "requests"} else f"{value:,.2f}"


def _print_cpu(report: Report, whose: str = "server ") -> None:
    for name, cpu in ((whose, report.get("server_cpu")), ("load generator ", report.get("client_cpu"))):
        if not cpu:
            continue
        per_gb = cpu.get("seconds_per_gb")
        share = f", {per_gb:.3f} s per GB" if per_gb is not None else ""
        output.stdout().print(f"{name}CPU: {cpu['total_seconds']:.2f} s ({cpu['cores']:.2f} cores){share}")
