"""The Python SDK beside clients of other logs, with the same messages, durability and machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.performance.options import MB
from tests.performance.results.metrics import Metric, at_least, at_most, ratios
from tests.performance.results.section import Section
from tests.performance.rivals import kafka_broker, nats_server, programs
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, topic
from tests.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[3]
SIZES = (100, 1000)
PAIRS = (
    ("produce headrace", "produce confluent-kafka"),
    ("produce headrace, send_many", "produce confluent-kafka, produce_batch"),
    ("produce headrace.aio", "produce confluent-kafka.aio"),
    ("produce headrace.aio", "produce nats-py"),
    ("consume headrace", "consume confluent-kafka"),
    ("consume headrace", "consume confluent-kafka, consume"),
    ("consume headrace, Arrow", "consume confluent-kafka, consume"),
    ("consume headrace.aio", "consume confluent-kafka.aio, consume"),
    ("consume headrace.aio", "consume nats-py"),
    ("consume headrace.aio", "consume nats-py, fetch"),
)
"""Loads that do the same, of the SDK and of another client."""
_DURABILITY = (
    "Durability: an acknowledged message is in the kernel's page cache and survives the end of the server, not that of "
    "the machine. Headrace: level os; Kafka: one node, acks=all, no flush.messages; JetStream: one node, file storage, "
    "default sync_interval."
)
_MEASURED = (
    "CPU is that of the client's process, native threads included. Latency: one message at a time until it is "
    "acknowledged. Waiting: CPU of a consumer without messages, and the time from sending a message to its arrival."
)


@dataclass(frozen=True, slots=True)
class System:
    """A server with the clients that are measured on it."""

    module: str
    """Module of the loads."""
    names: Sequence[str]
    """Names of the loads."""
    topic: Callable[[], AbstractContextManager[str]]
    """Makes a topic; the value is what the loads get as the address."""
    fill: str
    """Load that produces the messages that are consumed."""
    share: float
    """Share of the messages: slow clients get fewer."""

    def measure(self, name: str, address: str, size: int, count: int) -> dict[str, float]:
        """Run one load in a process of its own."""
        command = [sys.executable, "-m", self.module, name, address, str(size), str(count)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoadFailed(f"{name}: {done.stderr[-2000:]}")
        return dict(json.loads(done.stdout.splitlines()[-1]))


class LoadFailed(Exception):
    """The process of a load ended without a result."""


def run(bench: Workbench) -> Section:
    """Measure the case."""
    notes = [_DURABILITY, _MEASURED]
    samples: dict[str, list[float]] = {}
    with ExitStack() as stack:
        systems = [_headrace(stack, bench), *_others(stack, bench, notes)]
        for size in SIZES:
            turns = {f"{size} B, {system.names[0]}": _loads(bench, system, size) for system in systems}
            samples |= alternate(turns, bench.scale.rounds, bench.started)
        waits = {f"waiting, {system.names[0]}": _waits(system) for system in systems}
        samples |= alternate(waits, bench.scale.rounds, bench.started)
    return Section(
        name="rivals",
        title="the Python SDK beside confluent-kafka and nats-py",
        metrics=metrics(samples, [name for system in systems for name in system.names]),
        notes=notes,
    )


def _headrace(stack: ExitStack, bench: Workbench) -> System:
    from tests.performance.loads.sdk_load import LOADS

    server = stack.enter_context(bench.server("rivals"))
    return System(
        module="tests.performance.loads.sdk_load",
        names=[name for name in LOADS if "headrace" in name],
        topic=partial(_topic, server),
        fill="produce headrace, send_many",
        share=1,
    )


@contextmanager
def _topic(server: ServerProcess) -> Generator[str]:
    with topic(server, 1) as target:
        yield target.address


def _others(stack: ExitStack, bench: Workbench, notes: list[str]) -> list[System]:
    """Start the other logs; those that cannot be had are left out, with a note."""
    if find_spec("confluent_kafka") is None or find_spec("nats") is None:
        notes.append("Without Kafka and NATS: confluent-kafka and nats-py are not installed (`make setup`).")
        return []
    from tests.performance.loads import kafka_load, nats_load
    from tests.performance.rivals.topics import kafka_topic, nats_stream

    systems = []
    try:
        bench.started("loading Kafka")
        running = stack.enter_context(
            kafka_broker.broker(bench.directory / "kafka", programs.kafka_class_path()),
        )
    except kafka_broker.KafkaUnavailable as problem:
        notes.append(f"Without Kafka: {problem}")
    else:
        notes.append(f"Kafka {programs.kafka_version()} by its default settings, KRaft, heap of 1 GB.")
        systems.append(
            System(
                module=kafka_load.__name__,
                names=list(kafka_load.LOADS),
                topic=partial(kafka_topic, running.address),
                fill="produce confluent-kafka, produce_batch",
                share=1 / 3,
            )
        )
    try:
        bench.started("building the NATS server")
        address = stack.enter_context(nats_server.nats(bench.directory / "nats", programs.nats_server()))
    except programs.NatsUnavailable as problem:
        notes.append(f"Without NATS: {problem}")
    else:
        notes.append(f"NATS {programs.nats_version()} by its default settings.")
        systems.append(
            System(
                module=nats_load.__name__,
                names=list(nats_load.LOADS),
                topic=partial(nats_stream, address),
                fill="produce nats-py",
                share=1 / 20,
            )
        )
    return systems


def _loads(bench: Workbench, system: System, size: int) -> Turn[float]:
    """Produce, consume and wait for acknowledgements with each client of a system."""
    count = max(10, int(bench.scale.large_bytes / 10 / size / 1000 * system.share)) * 1000

    def turn() -> Mapping[str, float]:
        found: dict[str, float] = {}
        for kind in ("produce", "latency"):
            for name in _of_kind(system, kind):
                bench.recycle(count * (size + 64) // (10 if kind == "latency" else 1) + MB)
                with system.topic() as address:
                    found |= _numbers(name, size, system.measure(name, address, size, count))
        with system.topic() as address:
            system.measure(system.fill, address, size, count)
            for name in _of_kind(system, "consume"):
                found |= _numbers(name, size, system.measure(name, address, size, count))
        return found

    return turn


def _waits(system: System) -> Turn[float]:
    def turn() -> Mapping[str, float]:
        found: dict[str, float] = {}
        for name in _of_kind(system, "waiting"):
            with system.topic() as address:
                result = system.measure(name, address, 8, _IDLE_SECONDS)
            found |= {f"{name}: {key}": value for key, value in result.items()}
        return found

    return turn


def _of_kind(system: System, kind: str) -> list[str]:
    return [name for name in system.names if name.startswith(kind)]


def _numbers(name: str, size: int, result: dict[str, float]) -> dict[str, float]:
    if "p50_millis" in result:
        return {f"{name}, {size} B: {key}": value for key, value in result.items()}
    return {
        f"{name}, {size} B: rate": result["messages"] / result["seconds"],
        f"{name}, {size} B: cpu": result["cpu_seconds"] * 1e6 / result["messages"],
    }


_UNITS = {
    "rate": ("", "messages/s"),
    "cpu": (": CPU", "us/message"),
    "p50_millis": (": p50", "ms"),
    "p99_millis": (": p99", "ms"),
    "idle_cpu_millis_per_second": (": CPU without messages", "ms/s"),
}
_IDLE_SECONDS = 10
"""Time for which a consumer waits without messages."""
_IDLE_CPU_MILLIS_PER_SECOND = 0.5
"""Limit of what counts as no CPU: half a thousandth of a core."""
_WAKE_MILLIS = 1.0


def metrics(samples: Mapping[str, Sequence[float]], names: Sequence[str]) -> list[Metric]:
    """Return what was measured with each client, and then the costs of the others compared with the SDK's.

    Args:
        samples: Values of each round, by load, size and quantity.
        names: Names of the loads; those that do the same are listed together.
    """
    found = []
    kinds = ("produce", "consume", "latency", "waiting")
    places = [(kind, size) for kind in kinds for size in (SIZES if kind != "waiting" else (0,))]
    for kind, size in places:
        for name in (name for name in names if name.startswith(kind)):
            measured = f"{name}, {size} B" if size else name
            for key, (suffix, unit) in _UNITS.items():
                if (values := samples.get(f"{measured}: {key}")) is None:
                    continue
                goal = None
                if name.startswith("waiting headrace") and key != "p99_millis":
                    goal = at_most(_WAKE_MILLIS if key == "p50_millis" else _IDLE_CPU_MILLIS_PER_SECOND)
                found.append(Metric(measured + suffix, tuple(values), unit, goal))
    for size in SIZES:
        for ours, other in PAIRS:
            if f"{other}, {size} B: cpu" not in samples:
                continue
            costs = (samples[f"{name}, {size} B: cpu"] for name in (other, ours))
            goal = at_least(2.0) if size == SIZES[0] and "confluent" in other else None
            name = f"{ours}, {size} B: messages per CPU second, {other.partition(' ')[2]} = 1"
            found.append(Metric(name, ratios(*costs), goal=goal))
    return found
