"""Time from the start of the process until clients can connect."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.performance.loads.load import STREAM, TOPIC, Load, run_native
from tests.performance.options import GB
from tests.performance.results.metrics import Goal, Metric, at_most
from tests.performance.results.section import Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, connect, create_topic, stop_and_evict, target_of
from tests.server_process import ServerProcess

PARTITIONS = 1000
SPARE_BYTES = 5 * GB


class DataLost(Exception):
    """A startup did not restore all data."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Data directory of a server, and its contents."""

    what: str
    server: ServerProcess
    messages_count: int


def run(bench: Workbench) -> Section:
    """Measure the case."""
    metrics = _measure(bench, _empty_partitions(bench), at_most(1.0), cold=False)
    notes = ["Time of the whole process, with the interpreter and its imports."]
    wanted = bench.scale.stored_bytes * 11 // 10 + SPARE_BYTES
    free = shutil.disk_usage(bench.directory).free
    if free < wanted:
        notes.append(
            f"Not measured with data: {wanted / GB:.0f} GB of free space are wanted, {free / GB:.0f} are there."
        )
    else:
        metrics += _measure(bench, _filled(bench), at_most(3.0), cold=True)
    return Section(name="startup", title="start to listening", metrics=metrics, notes=notes)


def _empty_partitions(bench: Workbench) -> Stored:
    bench.started(f"{PARTITIONS} partitions")
    server = ServerProcess(bench.directory / "partitions").start()
    create_topic(server, PARTITIONS)
    return Stored(f"{PARTITIONS:,} empty partitions", server, 0)


def _filled(bench: Workbench) -> Stored:
    amount = bench.scale.stored_bytes
    bench.started(f"writing {amount / GB:.0f} GB")
    server = ServerProcess(bench.directory / "filled").start()
    create_topic(server, 4)
    load = Load(
        mode="produce",
        message_size_bytes=1000,
        messages_per_batch=1000,
        amount={"bytes": amount},
        warm_up_seconds=0.0,
    )
    run_native(load, target_of(server))
    return Stored(f"{amount / GB:.0f} GB", server, _messages_count(server))


def _measure(bench: Workbench, stored: Stored, goal: Goal, *, cold: bool) -> list[Metric]:
    server = stored.server
    ends: dict[str, Callable[[], object]] = {"stopped": server.stop, "killed": server.kill}
    if cold:
        ends["stopped, nothing in the page cache"] = lambda: stop_and_evict(server)
    turns = {f"{stored.what}, {how}": _start(stored, f"{stored.what}, {how}", end) for how, end in ends.items()}
    samples = alternate(turns, bench.scale.rounds, bench.started)
    server.stop()
    shutil.rmtree(server.data)
    return [Metric(name, tuple(samples[name]), "s", goal) for name in turns]


def _start(stored: Stored, name: str, end: Callable[[], object]) -> Turn[float]:
    server = stored.server

    def turn() -> Mapping[str, float]:
        end()
        begin = time.perf_counter()
        server.start()
        seconds = time.perf_counter() - begin
        if _messages_count(server) != stored.messages_count:
            raise DataLost(f"{_messages_count(server)} messages of {stored.messages_count}\n{server.log_tail()}")
        return {name: seconds}

    return turn


def _messages_count(server: ServerProcess) -> int:
    client = connect(server)
    topic = client.topic(STREAM, TOPIC)
    client.close()
    return topic.messages_count if topic else 0
