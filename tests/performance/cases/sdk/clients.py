"""The Python SDK and the official Python client, on the same server with the same messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.performance.loads.sdk_load import LOADS
from tests.performance.options import MB
from tests.performance.results.metrics import Metric, at_least, at_most, ratios
from tests.performance.results.section import Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, topic
from tests.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[4]
SIZES = (100, 1000)
OFFICIAL = "apache-iggy"
PER_CPU_SECOND = "messages/CPU s"


def run(bench: Workbench) -> Section:
    """Measure the case."""
    metrics: list[Metric] = []
    with bench.server("sdk") as server:
        for size in SIZES:
            count = max(10, int(bench.scale.large_bytes / 10 / size / 1000)) * 1000
            turn = {f"{size} B": _round(bench, server, size, count)}
            samples = alternate(turn, bench.scale.rounds, bench.started)
            metrics += _metrics(size, samples)
    return Section(
        name="sdk",
        title="the Python SDK beside the official Python client",
        metrics=metrics,
        notes=[
            (
                "Messages and CPU seconds of the client's process, native threads included; one partition; batches of "
                "the official client have 1,000 messages. Latency: one message at a time until it is acknowledged."
            )
        ],
    )


def _round(bench: Workbench, server: ServerProcess, size: int, count: int) -> Turn[float]:
    def turn() -> Mapping[str, float]:
        found: dict[str, float] = {}
        for kind in ("produce", "consume", "latency"):
            names = [name for name in LOADS if name.startswith(kind)]
            if kind == "consume":
                with topic(server, 1):
                    _run(server, "produce headrace, send_many", size, count)
                    for name in names:
                        found |= _numbers(name, _run(server, name, size, count))
                continue
            for name in names:
                bench.recycle(count * (size + 64) // (10 if kind == "latency" else 1) + MB)
                with topic(server, 1):
                    found |= _numbers(name, _run(server, name, size, count))
        return found

    return turn


def _run(server: ServerProcess, name: str, size: int, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.performance.loads.sdk_load", name, server.address, str(size), str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _numbers(name: str, result: dict[str, float]) -> dict[str, float]:
    if "p50_millis" in result:
        return {f"{name} p50": result["p50_millis"], f"{name} p99": result["p99_millis"]}
    messages = result["messages"]
    return {f"{name} rate": messages / result["seconds"], f"{name} cpu": messages / result["cpu_seconds"]}


def _metrics(size: int, samples: Mapping[str, list[float]]) -> list[Metric]:
    found = []
    for kind in ("produce", "consume"):
        names = [name for name in LOADS if name.startswith(kind)]
        official = f"{kind} {OFFICIAL}"
        for name in names:
            found.append(Metric(f"{name}, {size} B", tuple(samples[f"{name} rate"]), "messages/s"))
            found.append(Metric(f"{name}, {size} B", tuple(samples[f"{name} cpu"]), PER_CPU_SECOND))
            if name == official:
                continue
            ratio = ratios(samples[f"{name} cpu"], samples[f"{official} cpu"])
            goal = at_least(3.0) if size == SIZES[0] else None
            found.append(Metric(f"{name}, {size} B: messages per CPU second, {OFFICIAL} = 1", ratio, goal=goal))
    for name in (name for name in LOADS if name.startswith("latency")):
        found += [
            Metric(f"{name}, {size} B, {quantile}", tuple(samples[f"{name} {quantile}"]), "ms")
            for quantile in ("p50", "p99")
        ]
    waiting = ratios(samples["latency headrace p50"], samples[f"latency {OFFICIAL} p50"])
    found.append(Metric(f"latency headrace, {size} B: p50, {OFFICIAL} = 1", waiting, goal=at_most(1.5)))
    return found
