"""Long poll: latency from append to delivery compared with polling, and the cost of very many waiting connections."""

from __future__ import annotations

import resource
import selectors
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import psutil

import headrace_core as core
from headrace_core import Client
from tests.performance.loads.load import STREAM, TOPIC
from tests.performance.options import MB
from tests.performance.results.metrics import Metric, at_most, differences
from tests.performance.results.section import Section
from tests.performance.rounds import alternate
from tests.performance.workbench import Workbench, connect, create_topic
from tests.server_process import PASSWORD, USERNAME, ServerProcess

APPENDS = 300
PAUSE_SECONDS = 0.005
"""Pause between two appends, so that each finds its reader waiting."""
POLL_PAUSE_SECONDS = 0.001
READERS = 5000
WAIT_MICROS = 60_000_000
ANSWER_BYTES = 8 + 16 + 64 + 1
"""Bytes of a response: frame header, poll header, and a message of one byte."""

WAITING, POLLING = "waiting", f"polling every {POLL_PAUSE_SECONDS * 1000:.0f} ms"
MEDIAN, TAIL, CPU = "append to reader, p50", "append to reader, p99", "server CPU for each append"
BASE = "memory without them"
PARKED = f"memory with {READERS} that wait"
LAST = f"append to the last of {READERS}"


def run(bench: Workbench) -> Section:
    """Measure the case."""
    # One user may have half of the places.
    with bench.server("waiting", TCP_MAX_CONNECTIONS=str(4 * READERS)) as server:
        create_topic(server, 4)
        samples = alternate(
            {WAITING: _arrivals(server, WAITING), POLLING: _arrivals(server, POLLING), LAST: _crowd(server)},
            bench.scale.rounds,
            bench.started,
        )

    def metric(name: str, unit: str, goal: float | None = None) -> Metric:
        return Metric(name, tuple(samples[name]), unit, at_most(goal) if goal is not None else None)

    grown = differences(samples[PARKED], samples[BASE])
    return Section(
        name="waiting",
        title=f"an append every {PAUSE_SECONDS * 1000:.0f} ms and one reader; one append and {READERS} readers",
        metrics=[
            metric(f"{WAITING}: {MEDIAN}", "ms", 1.0),
            metric(f"{WAITING}: {TAIL}", "ms"),
            metric(f"{WAITING}: {CPU}", "us"),
            metric(f"{POLLING}: {MEDIAN}", "ms"),
            metric(f"{POLLING}: {TAIL}", "ms"),
            metric(f"{POLLING}: {CPU}", "us"),
            metric(LAST, "ms"),
            Metric(f"memory of each of {READERS} that wait, its connection included", _per_reader(grown), "KB"),
        ],
        notes=("Latency is measured in one Python process, which appends in one thread and reads in another.",),
    )


def _per_reader(megabytes: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(grown * 1000 / READERS for grown in megabytes)


def _arrivals(server: ServerProcess, how: str) -> Callable[[], Mapping[str, float]]:
    """Measure from the append call to the delivery at another connection."""

    def turn() -> Mapping[str, float]:
        producer, consumer = connect(server), connect(server)
        start = producer.poll(STREAM, TOPIC, 0, strategy="last", count=1)
        position = start.messages[-1].offset + 1 if start.messages else 0
        arrived: list[float] = []
        reader = threading.Thread(target=_read, args=(consumer, how, position, arrived))
        process = psutil.Process(server.process.pid)
        reader.start()
        time.sleep(0.05)
        before = _cpu_seconds(process)
        sent = []
        for _ in range(APPENDS):
            time.sleep(PAUSE_SECONDS)
            sent.append(time.perf_counter())
            producer.send(STREAM, TOPIC, [b"x"], partition=0)
        reader.join()
        used = _cpu_seconds(process) - before
        producer.close()
        consumer.close()
        latencies = sorted((there - then) * 1000 for then, there in zip(sent, arrived, strict=True))
        return {
            f"{how}: {MEDIAN}": statistics.median(latencies),
            f"{how}: {TAIL}": latencies[len(latencies) * 99 // 100],
            f"{how}: {CPU}": used / APPENDS * 1e6,
        }

    return turn


def _read(consumer: Client, how: str, position: int, arrived: list[float]) -> None:
    while len(arrived) < APPENDS:
        value = position + len(arrived)
        if how == WAITING:
            polled = consumer.wait(STREAM, TOPIC, 0, strategy="offset", value=value, maximum_wait_seconds=5)
        else:
            polled = consumer.poll(STREAM, TOPIC, 0, strategy="offset", value=value)
            if not polled.messages:
                time.sleep(POLL_PAUSE_SECONDS)
        arrived.extend([time.perf_counter()] * len(polled.messages))


def _crowd(server: ServerProcess) -> Callable[[], Mapping[str, float]]:
    """Measure one append that answers connections waiting at one partition."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    def turn() -> Mapping[str, float]:
        producer = connect(server)
        base = server.memory_bytes()
        end = producer.poll(STREAM, TOPIC, 1, strategy="last", count=1)
        position = end.messages[-1].offset + 1 if end.messages else 0
        with _readers(server, position) as sockets, selectors.DefaultSelector() as selector:
            for reader in sockets:
                selector.register(reader, selectors.EVENT_READ)
            time.sleep(0.5)
            parked = server.memory_bytes()
            begin = time.perf_counter()
            producer.send(STREAM, TOPIC, [b"x"], partition=1)
            missing = len(sockets) * ANSWER_BYTES
            while missing:
                for key, _ in selector.select():
                    missing -= len(key.fileobj.recv(ANSWER_BYTES))  # type: ignore[union-attr]
            last = time.perf_counter() - begin
        producer.close()
        return {BASE: base / MB, PARKED: parked / MB, LAST: last * 1000}

    return turn


@contextmanager
def _readers(server: ServerProcess, position: int) -> Generator[list[socket.socket]]:
    """Open waiting connections. They log in with a token, because password checks are slow by design."""
    frames = _frame(*core.encode_login_with_personal_access_token(token=_token(server))) + _frame(
        *core.encode_wait_messages(
            stream=STREAM, topic=TOPIC, partition=1, strategy="offset", value=position, maximum_wait_micros=WAIT_MICROS
        )
    )
    host, _, port = server.address.rpartition(":")
    sockets: list[socket.socket] = []
    try:
        for _ in range(READERS):
            reader = socket.create_connection((host, int(port)))
            sockets.append(reader)
            reader.sendall(frames)
        for reader in sockets:
            status, length = struct.unpack("<II", _exactly(reader, 8))
            assert status == 0
            _exactly(reader, length)
        yield sockets
    finally:
        for reader in sockets:
            reader.close()


def _token(server: ServerProcess) -> str:
    """Create a new token of root."""
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        name = f"readers-{time.monotonic_ns()}"[:30]
        connection.sendall(_frame(*core.encode_login_user(username=USERNAME, password=PASSWORD)))
        _exactly(connection, 12)
        connection.sendall(_frame(*core.encode_create_personal_access_token(name=name)))
        _, length = struct.unpack("<II", _exactly(connection, 8))
        return core.decode_raw_access_token(_exactly(connection, length))


def _frame(code: int, payload: bytes) -> bytes:
    return struct.pack("<II", len(payload) + 4, code) + payload


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        data += connection.recv(length - len(data))
    return data


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
