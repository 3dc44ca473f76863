"""Frames of 8 to 64 KB from default sockets: no stall by delayed acknowledgements.

With Nagle's algorithm on and the header in a segment of its own, the rest of such a frame is sent only after the header
is acknowledged, which the kernel delays by some 40 ms unless the receiver requests it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from tests.performance.loads.load import Load, Target, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.results.metrics import Metric, at_most
from tests.performance.results.section import CPU_PER_REQUEST, P50, P99, REQUESTS_PER_SECOND, Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, topic
from tests.server_process import ServerProcess

MESSAGE_BYTES = 1000
ENTRY_BYTES = MESSAGE_BYTES + 64 + 16
"""Bytes of a message in a frame: payload, header and index entry."""
MESSAGES = (8, 15, 30, 60)
"""Messages per frame. The largest frame is just below a segment of the loopback device, where the stall would end by
itself.
"""

WRITTEN_BYTES = 1_000_000_000
"""Approximate bytes written in a turn."""

DEFAULT = "default sockets"
NO_DELAY = "no delay"
OFFICIAL = "official client"
NULL = "null listener, default sockets"


def run(bench: Workbench) -> Section:
    """Measure the case."""
    loads = {
        _size(messages): Load(
            mode="produce",
            message_size_bytes=MESSAGE_BYTES,
            messages_per_batch=messages,
            amount={"seconds": bench.scale.frames_seconds},
            warm_up_seconds=bench.scale.warm_up_seconds / 2,
            default_sockets=True,
        )
        for messages in MESSAGES
    }
    with ExitStack() as stack:
        server = stack.enter_context(bench.server("frames"))
        null = stack.enter_context(bench.null(MESSAGE_BYTES, MESSAGES[-1]))
        turns = {size: _turn(bench, size, load, server, null) for size, load in loads.items()}
        samples = alternate(turns, bench.scale.rounds, bench.started)
    return Section(
        name="frames",
        title="4 connections, frames of 8 to 64 KB",
        columns=(REQUESTS_PER_SECOND, P50, P99, CPU_PER_REQUEST),
        samples={name: samples[name] for name in sorted(samples, key=lambda name: _place(name, list(loads)))},
        metrics=[
            Metric(f"p50, {name}", _p50(samples[name]), "ms", at_most(1.0))
            for size in loads
            for who in (DEFAULT, OFFICIAL)
            if (name := f"{size}: {who}") in samples
        ],
        notes=("The null listener waits for the acknowledgement: it shows that the sockets are what they should be.",),
    )


def _turn(bench: Workbench, size: str, load: Load, server: ServerProcess, null: Target) -> Turn[Measurement]:
    def turn() -> Mapping[str, Measurement]:
        measured = {f"{size}: {NULL}": run_native(load, null)}
        with topic(server, load.connections) as target:
            bench.recycle(WRITTEN_BYTES)
            measured[f"{size}: {DEFAULT}"] = run_native(load, target)
            measured[f"{size}: {NO_DELAY}"] = run_native(replace(load, default_sockets=False), target)
            if bench.official is not None:
                measured[f"{size}: {OFFICIAL}"] = bench.official.run(load, target)
        return measured

    return turn


def _size(messages: int) -> str:
    return f"{messages * ENTRY_BYTES / 1000:.1f} kB"


def _place(name: str, sizes: list[str]) -> tuple[int, int]:
    size, _, who = name.partition(": ")
    return sizes.index(size), (DEFAULT, OFFICIAL, NO_DELAY, NULL).index(who)


def _p50(measurements: list[Measurement]) -> tuple[float, ...]:
    return tuple(run.p50_millis or 0.0 for run in measurements)
