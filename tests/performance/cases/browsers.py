"""Push to browsers: very many subscriptions, the effect of some that stop reading, and their cost."""

from __future__ import annotations

import base64
import json
import os
import resource
import selectors
import socket
import statistics
import struct
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import psutil

from tests.performance.loads.load import STREAM, TOPIC
from tests.performance.options import MB
from tests.performance.results.metrics import Metric, at_least, at_most, differences
from tests.performance.results.section import Section
from tests.performance.rounds import alternate
from tests.performance.workbench import Workbench, connect, create_topic
from tests.server_process import PASSWORD, USERNAME, ServerProcess

SUBSCRIPTIONS = 5000
STALLED = 50
APPENDS = 20
INTERVAL_SECONDS = 0.5
PAYLOAD_BYTES = 200
BACKLOG = [b"x" * 100_000] * 200
"""Messages that stalled clients have requested and do not read."""
SETTINGS = {
    "PUSH_MAX_CONNECTIONS_PER_USER": "10000",
    "PUSH_MAX_CONNECTIONS_PER_ADDRESS": "10000",
    # Keep the server from disconnecting clients that do not answer pings, which is not under test.
    "PUSH_HEARTBEAT_INTERVAL": "10 m",
}

BEFORE, AFTER = "all read", f"{STALLED} of them do not"
RATE, LAST, CPU = "messages a second", "append to the last one, p50", "server CPU for each message"
BASE, SUBSCRIBED, STALLING = "memory without them", "memory with them", f"memory when {STALLED} do not read"

_COUNT = struct.Struct("<20xI")


def run(bench: Workbench) -> Section:
    """Measure the case."""
    with bench.server("browsers", **SETTINGS) as server:
        create_topic(server, 2)
        samples = alternate({"browsers": _crowd(server)}, bench.scale.rounds, bench.started)

    def metric(when: str, what: str, unit: str) -> Metric:
        return Metric(f"{when}: {what}", tuple(samples[f"{when}: {what}"]), unit, None)

    kept = tuple(
        after / before for before, after in zip(samples[f"{BEFORE}: {RATE}"], samples[f"{AFTER}: {RATE}"], strict=True)
    )
    each = tuple(grown * 1000 / SUBSCRIPTIONS for grown in differences(samples[SUBSCRIBED], samples[BASE]))
    stalled = tuple(grown * 1000 / STALLED for grown in differences(samples[STALLING], samples[SUBSCRIBED]))
    return Section(
        name="browsers",
        title=f"{SUBSCRIPTIONS} browsers with a subscription each, a message every {INTERVAL_SECONDS * 1000:.0f} ms",
        metrics=[
            metric(BEFORE, RATE, "1/s"),
            metric(AFTER, RATE, "1/s"),
            Metric("rate that the others keep", kept, "x", at_least(0.95)),
            metric(BEFORE, LAST, "ms"),
            metric(AFTER, LAST, "ms"),
            metric(BEFORE, CPU, "us"),
            metric(AFTER, CPU, "us"),
            Metric("memory of each, its connection included", each, "KB"),
            Metric("further memory of each that does not read", stalled, "KB", at_most(1000)),
        ],
        notes=(
            f"Those that do not read have credit, and {sum(map(len, BACKLOG)) // 10**6} MB to read elsewhere.",
            "Messages are counted in one Python process, which takes CPU from the server's.",
        ),
    )


def _crowd(server: ServerProcess) -> Callable[[], Mapping[str, float]]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    # Base memory before the first subscriptions: the server keeps some memory for later ones.
    base = server.memory_bytes()

    def turn() -> Mapping[str, float]:
        producer = connect(server)
        if producer.poll(STREAM, TOPIC, 1, strategy="first", count=1).messages == []:
            producer.send(STREAM, TOPIC, BACKLOG, partition=1)
        process = psutil.Process(server.process.pid)
        with _browsers(server) as browsers:
            subscribed = server.memory_bytes()
            all_of_them = Crowd(browsers)
            found = all_of_them.measure(BEFORE, producer, process)
            for browser in browsers[:STALLED]:
                _ask(browser, _subscribe(2, partition=1, kind="first"))
            time.sleep(2)
            found |= Crowd(browsers[STALLED:]).measure(AFTER, producer, process)
            stalling = server.memory_bytes()
        producer.close()
        return {**found, BASE: base / MB, SUBSCRIBED: subscribed / MB, STALLING: stalling / MB}

    return turn


class Crowd:
    """Reading subscribers. They decode frames only as far as needed to count the messages."""

    def __init__(self, browsers: list[socket.socket]) -> None:
        self._selector = selectors.DefaultSelector()
        self._received = {browser: bytearray() for browser in browsers}
        for browser in browsers:
            browser.settimeout(0)
            self._selector.register(browser, selectors.EVENT_READ)

    def measure(self, when: str, producer: Any, process: psutil.Process) -> dict[str, float]:
        """Append, and wait until every subscriber has all messages or the interval of the next append is over."""
        latencies, count, before = [], 0, _cpu_seconds(process)
        begin = time.perf_counter()
        for number in range(APPENDS):
            sent = time.perf_counter()
            producer.send(STREAM, TOPIC, [b"x" * PAYLOAD_BYTES], partition=0)
            missing = len(self._received)
            while missing > 0:
                got = self._receive(timeout=10)
                assert got, f"{missing} messages have not come"
                count += got
                missing -= got
            latencies.append((time.perf_counter() - sent) * 1000)
            time.sleep(max(0.0, begin + (number + 1) * INTERVAL_SECONDS - time.perf_counter()))
        seconds = time.perf_counter() - begin
        self._selector.close()
        return {
            # Scale to the subscribers that read at the end, so that both phases are comparable.
            f"{when}: {RATE}": count / seconds / len(self._received) * (SUBSCRIPTIONS - STALLED),
            f"{when}: {LAST}": statistics.median(latencies),
            f"{when}: {CPU}": (_cpu_seconds(process) - before) / count * 1e6,
        }

    def _receive(self, timeout: float) -> int:
        return sum(self._messages(key.fileobj) for key, _ in self._selector.select(timeout))

    def _messages(self, browser: Any) -> int:
        received = self._received[browser]
        data = browser.recv(65536)
        assert data, "the server has closed a connection"
        received += data
        count = position = 0
        while len(received) - position >= 2:
            length, header = received[position + 1], 2
            if length == 126:
                length, header = int.from_bytes(received[position + 2 : position + 4], "big"), 4
            if len(received) - position < header + length:
                break
            if received[position] == 0x82:
                count += _COUNT.unpack_from(received, position + header)[0]
            position += header + length
        del received[:position]
        return count


@contextmanager
def _browsers(server: ServerProcess) -> Generator[list[socket.socket]]:
    body = json.dumps({"username": USERNAME, "password": PASSWORD}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{server.http_url}/users/login", body, headers)) as answer:
        token = json.load(answer)["access_token"]["token"]
    host, _, port = server.http_address.rpartition(":")
    browsers: list[socket.socket] = []
    try:
        for _ in range(SUBSCRIPTIONS):
            browser = socket.create_connection((host, int(port)))
            browsers.append(browser)
            key = base64.b64encode(os.urandom(16)).decode()
            browser.sendall(
                f"GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                "Sec-WebSocket-Protocol: headrace.v1.binary\r\n\r\n".encode()
            )
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += browser.recv(4096)
            _ask(browser, {"type": "login", "id": 1, "token": token})
            _ask(browser, _subscribe(1, partition=0, kind="last"))
        yield browsers
    finally:
        for browser in browsers:
            browser.close()


def _subscribe(number: int, *, partition: int, kind: str) -> dict[str, Any]:
    topic = {"stream": STREAM, "topic": TOPIC, "partitions": [partition], "start": {"kind": kind}}
    credit = {"messages": 100_000, "bytes": 64 * 2**20}
    return {"type": "subscribe", "id": 1, "subscription": number, "topics": [topic], "credit": credit}


def _ask(browser: socket.socket, message: dict[str, Any]) -> None:
    """Send a request and receive its response, which precedes all messages."""
    payload = json.dumps(message).encode()
    browser.settimeout(20)
    # Mask with zeros, which leaves the text unchanged.
    browser.sendall(b"\x81" + struct.pack("!BH", 0x80 | 126, len(payload)) + bytes(4) + payload)
    head = browser.recv(2, socket.MSG_WAITALL)
    length = head[1] if head[1] < 126 else int.from_bytes(browser.recv(2, socket.MSG_WAITALL), "big")
    answer = json.loads(browser.recv(length, socket.MSG_WAITALL))
    assert answer["type"] == "ok", answer


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
