"""Limits of connections, memory and startup time; the measured numbers are printed."""

from __future__ import annotations

import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, Reply, eventually
from tests.conftest import StartServer
from tests.server_process import ServerProcess

IDLE_COUNT = 10_000
BUSY_COUNT = 64
MEMORY_AT_REST_BYTES_MAX = 150_000_000
START_CPU_SECONDS_MAX = 0.5


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raise the limit of open files for this process and the servers that it starts."""
    needed = IDLE_COUNT + BUSY_COUNT + 6000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.fail(f"{needed} open files are needed and the hard limit is {hard}: raise it (ulimit -Hn) and run again")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


@contextmanager
def idle_connections(address: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent one request and then stay idle."""
    host, _, port = address.rpartition(":")
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), 30))
            connection.sendall(frames.request(Code.PING))
            sockets.append(connection)
        for connection in sockets:
            assert connection.recv(8) == bytes(8)
        yield sockets


class Busy(threading.Thread):
    """A client that sends and polls without pause until it is stopped."""

    def __init__(self, address: str, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.failure: BaseException | None = None
        self.rounds = 0
        self._address = address
        self._number = number
        self._asked_to_stop = stop

    def run(self) -> None:
        """Send a batch and read it back from its offset."""
        try:
            with RawConnection.as_root(self._address) as connection:
                while not self._asked_to_stop.is_set():
                    payloads = [b"%d %d %d" % (self._number, self.rounds, nth) for nth in range(10)]
                    connection.send("busy", "t", self._number, *payloads)
                    polled = connection.poll("busy", "t", self._number, Strategy.NEXT, count=10, auto_commit=True)
                    assert polled.payloads == payloads
                    self.rounds += 1
        except BaseException as failure:  # noqa: BLE001 - it is raised again by the test
            self.failure = failure


@pytest.mark.alone
@pytest.mark.usefixtures("many_files")
def test_ten_thousand_idle_and_64_busy_connections(start_server: StartServer, show: list[str]) -> None:
    """No client fails, none is forgotten, and memory stays within its limit."""
    server = start_server({"TCP_MAX_CONNECTIONS": "12000"})
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("busy", partitions=BUSY_COUNT)
    at_rest = server.memory_bytes()
    started = time.monotonic()
    with idle_connections(server.address, IDLE_COUNT) as idle:
        seconds = time.monotonic() - started
        with RawConnection.as_root(server.address) as connection:
            # A connection counts as established once the kernel has accepted it; the server accepts them one by one.
            eventually("all are listed", lambda: connections_count(connection) >= IDLE_COUNT + 1, timeout_seconds=60)
        with_idle = server.memory_bytes()
        show.append(
            f"{IDLE_COUNT} idle connections in {seconds:.1f} s: {megabytes(at_rest)} -> {megabytes(with_idle)}, "
            f"{(with_idle - at_rest) / IDLE_COUNT:.0f} bytes each"
        )
        stop = threading.Event()
        busy = [Busy(server.address, number, stop) for number in range(BUSY_COUNT)]
        for client in busy:
            client.start()
        time.sleep(5)
        stop.set()
        for client in busy:
            client.join(30)
            assert client.failure is None, client.failure
            assert client.rounds > 0
        show.append(
            f"{BUSY_COUNT} busy ones beside them: {sum(client.rounds for client in busy)} batches sent and read"
        )
        show.append(f"memory with all of them: {megabytes(server.memory_bytes())}")
        with RawConnection.as_root(server.address) as connection:
            assert connections_count(connection) >= IDLE_COUNT + 1
        assert all_alive(idle)
        assert with_idle - at_rest < IDLE_COUNT * 10_000
    with RawConnection.as_root(server.address) as connection:
        eventually("forgetting the connections", lambda: connections_count(connection) == 1, timeout_seconds=30)
    show.append(f"and after all of them have gone: {megabytes(server.memory_bytes())}")


def connections_count(connection: RawConnection) -> int:
    """Return the number of clients that the server lists."""
    listing = connection.ok(Code.GET_CLIENTS)
    count = at = 0
    while at < len(listing):
        (address_bytes,) = struct.unpack_from("<I", listing, at + 9)
        at += 17 + address_bytes
        count += 1
    return count


def all_alive(sockets: list[socket.socket]) -> bool:
    """Return whether every connection still answers."""
    for connection in sockets:
        connection.sendall(frames.request(Code.PING))
    return all(connection.recv(8) == bytes(8) for connection in sockets)


def test_one_connection_too_many(start_server: StartServer) -> None:
    """A connection beyond the limit is refused, the users stay, and a closed connection makes room again."""
    server = start_server({"TCP_MAX_CONNECTIONS": "8", "SYSTEM_SHARDING_CPU_ALLOCATION": "1"})
    names = ["iggy", "one", "two", "three"]
    with ExitStack() as stack:
        connections = [stack.enter_context(RawConnection.as_root(server.address))]
        for name in names[1:]:
            connections[0].ok(Code.CREATE_USER, frames.create_user(name, "iggy"))
        # Each user has half of what the others leave.
        for name, count in zip(names, (3, 2, 1, 1), strict=True):
            connections += [
                stack.enter_context(RawConnection.as_user(server.address, name, "iggy")) for _ in range(count)
            ]
        assert all(connection.is_alive() for connection in connections)
        with RawConnection(server.address) as refused:
            assert is_refused(refused)
        assert all(connection.is_alive() for connection in connections)
        connections.pop().close()

        def there_is_room() -> bool:
            with RawConnection(server.address) as next_one:
                return not is_refused(next_one)

        eventually("room for one more", there_is_room)


def is_refused(connection: RawConnection) -> bool:
    """Return whether the server closes the connection instead of answering; it may send status 8 first."""
    try:
        connection.send_frame(Code.PING)
        data = connection.socket.recv(8)
    except ConnectionError:
        return True
    return data == b"" or struct.unpack("<II", data)[0] != Status.OK


def test_memory_at_rest(tmp_path_factory: pytest.TempPathFactory, show: list[str]) -> None:
    """Memory stays below 150 MB with default settings, also after work."""
    with ServerProcess(tmp_path_factory.mktemp("rest") / "data") as server:
        fresh = server.memory_bytes()
        with RawConnection.as_root(server.address) as connection:
            connection.create_topic("s", partitions=4)
            for number in range(400):
                connection.send("s", "t", number % 4, *[bytes(1000)] * 100)
        time.sleep(0.5)
        show.append(
            f"memory at rest with default settings: {megabytes(fresh)}, after 40 MB: {megabytes(server.memory_bytes())}"
        )
        assert fresh < MEMORY_AT_REST_BYTES_MAX


@pytest.mark.long
def test_start_with_a_thousand_partitions(start_server: StartServer, show: list[str]) -> None:
    """A thousand partitions add little to the startup of the process, and every partition is available.

    Measured in CPU time, because elapsed time depends on other load; `make bench` checks that a quiet machine starts
    within a second.
    """
    server = start_server()
    without = server.cpu_seconds()
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=1000)
    seconds, cpu_seconds = [], []
    for kill in (False, True, False):
        if kill:
            server.kill()
        else:
            server.stop()
        started = time.monotonic()
        server.start()
        with RawConnection(server.address) as connection:
            assert connection.is_alive()
        seconds.append(time.monotonic() - started)
        cpu_seconds.append(server.cpu_seconds())
        with RawConnection.as_root(server.address) as connection:
            for partition in (0, 500, 999):
                connection.send("s", "t", partition, b"m")
    show.append(
        f"start with 1,000 partitions: {', '.join(f'{value:.2f} s' for value in seconds)}; "
        f"CPU time {', '.join(f'{value:.2f} s' for value in cpu_seconds)}, without any {without:.2f} s"
    )
    assert min(cpu_seconds) - without < START_CPU_SECONDS_MAX


@pytest.mark.alone
def test_a_busy_connection_does_not_starve_the_others(server: ServerProcess) -> None:
    """One connection that sends as fast as it can does not delay the others (SHARD-5)."""
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
    stop = threading.Event()

    def flood() -> None:
        with RawConnection.as_root(server.address) as connection:
            messages = [frames.message(bytes(1000))] * 500
            request = frames.request(Code.SEND_MESSAGES, frames.send("s", "t", frames.to_partition(0), messages))
            while not stop.is_set():
                connection.socket.sendall(request * 4)
                for _ in range(4):
                    assert connection.receive() == Reply(Status.OK)

    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    try:
        with RawConnection(server.address) as connection:
            seconds = []
            for _ in range(300):
                started = time.perf_counter()
                assert connection.is_alive()
                seconds.append(time.perf_counter() - started)
        # The 99th percentile: a single slow request may be a pause of the machine, while a starved connection has many.
        assert sorted(seconds)[-4] < 1.0, sorted(seconds)[-10:]
    finally:
        stop.set()
        flooding.join(10)
