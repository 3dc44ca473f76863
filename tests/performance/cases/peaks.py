"""Requests of many MiB: extra time over WebSocket, and memory kept afterwards (GW-2)."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.performance.loads.load import Load, Target, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.options import MB
from tests.performance.results.metrics import Metric, at_most, ratios
from tests.performance.results.section import MB_PER_SECOND, MEAN, P99, Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, create_topic
from tests.server_process import ServerProcess

MIB = 1 << 20
SIZES_MIB = (16, 60)
TRANSPORTS = ("tcp", "websocket")
CONNECTIONS = 4
REQUESTS = 32
"""Number of requests of all connections together."""
IDLE = "1 s"
"""Idle time after which memory is released; with the default of 10 s a round would take minutes."""
REST_SECONDS = 4.0
"""Pause before memory is measured, more than twice the idle time."""
SAMPLE_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """One load of large requests, and the server's resident memory."""

    measurement: Measurement
    before_bytes: int
    peak_bytes: int
    after_bytes: int


def run(bench: Workbench) -> Section:
    """Measure the case."""
    turns = {_row(size, transport): _turn(bench, size, transport) for size in SIZES_MIB for transport in TRANSPORTS}
    samples = alternate(turns, bench.scale.rounds, bench.started)

    def values(size: int, transport: str, pick: Callable[[Peak], float]) -> tuple[float, ...]:
        return tuple(map(pick, samples[_row(size, transport)]))

    def seconds(size: int, transport: str) -> tuple[float, ...]:
        return values(size, transport, lambda peak: peak.measurement.mean_micros or 0.0)

    metrics = [
        Metric(
            f"{size} MiB: average latency, websocket / tcp",
            ratios(seconds(size, "websocket"), seconds(size, "tcp")),
            "",
            at_most(2.0),
        )
        for size in SIZES_MIB
    ]
    for size in SIZES_MIB:
        for transport in TRANSPORTS:
            before = values(size, transport, lambda peak: peak.before_bytes / MB)
            after = values(size, transport, lambda peak: peak.after_bytes / MB)
            metrics += [
                Metric(f"{_row(size, transport)}: memory before", before, "MB"),
                Metric(
                    f"{_row(size, transport)}: memory at the peak",
                    values(size, transport, lambda peak: peak.peak_bytes / MB),
                    "MB",
                ),
                Metric(f"{_row(size, transport)}: memory afterwards", after, "MB"),
                Metric(f"{_row(size, transport)}: memory afterwards / before", ratios(after, before), "", at_most(1.3)),
            ]
    return Section(
        name="peaks",
        title=f"{CONNECTIONS} producers, requests of one message of 16 or 60 MiB",
        columns=(MB_PER_SECOND, MEAN, P99),
        samples={row: [peak.measurement for peak in samples[row]] for row in turns},
        metrics=metrics,
        notes=(f"Memory is resident memory of a server of its own each time; afterwards: {REST_SECONDS:.0f} s later.",),
    )


def _row(size_mib: int, transport: str) -> str:
    return f"{size_mib} MiB, {transport}"


def _turn(bench: Workbench, size_mib: int, transport: str) -> Turn[Peak]:
    load = Load(
        mode="produce",
        connections=CONNECTIONS,
        message_size_bytes=size_mib * MIB,
        messages_per_batch=1,
        amount={"bytes": REQUESTS * size_mib * MIB},
        warm_up_seconds=0.0,
        transport=transport,
    )

    def turn() -> Mapping[str, Peak]:
        with bench.server("peaks", SYSTEM_MEMORY_POOL_IDLE_TIME=IDLE) as server:
            create_topic(server, CONNECTIONS)
            bench.recycle(REQUESTS * size_mib * MIB)
            before = server.memory_bytes()
            address = server.websocket_address if transport == "websocket" else server.address
            with _highest_memory(server) as highest:
                measurement = run_native(load, Target(address, server.process.pid))
            time.sleep(REST_SECONDS)
            after = server.memory_bytes()
        shutil.rmtree(server.data)
        peak = Peak(measurement=measurement, before_bytes=before, peak_bytes=max(highest), after_bytes=after)
        return {_row(size_mib, transport): peak}

    return turn


@contextmanager
def _highest_memory(server: ServerProcess) -> Generator[list[int]]:
    """Sample resident memory during a ``with`` block."""
    samples: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE_SECONDS):
            samples.append(server.memory_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()
        samples.append(server.memory_bytes())
