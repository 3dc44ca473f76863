"""Shutdown: requests in flight are answered, clients are notified, data is kept (LOG-15, GW-10)."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, Reply, eventually
from tests.conftest import StartServer
from tests.server_process import PASSWORD, USERNAME, ServerProcess

SIGNALS = [signal.SIGTERM, signal.SIGINT]
QUICKLY_SECONDS = 30.0


def stopped_quickly(server: ServerProcess, number: signal.Signals = signal.SIGTERM) -> None:
    """Check that the server stops by itself, well before it would be killed, with exit status 0."""
    started = time.monotonic()
    assert server.stop(number) == 0
    assert time.monotonic() - started < QUICKLY_SECONDS, server.log_tail()
    assert "still unanswered" not in server.log_tail()


@pytest.mark.long(but=1)
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_all_clients_are_notified(server: ServerProcess, number: signal.Signals) -> None:
    """Every connection, authenticated or not, idle or in the middle of a frame, receives status 8 and is closed."""
    connections = [RawConnection(server.address) for _ in range(20)]
    connections += [RawConnection.as_root(server.address) for _ in range(20)]
    for connection in connections:
        assert connection.is_alive()
    connections[0].socket.sendall(frames.request(Code.CREATE_STREAM, frames.name("half"))[:11])
    stopped_quickly(server, number)
    for connection in connections:
        assert connection.receive() == Reply(Status.DISCONNECTED)
        assert connection.wait_closed()
        connection.close()
    server.start()
    with RawConnection.as_root(server.address) as connection:
        assert connection.ok(Code.GET_STREAMS) == b""


@pytest.mark.long(but=1)
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_sends_in_flight_are_answered_and_kept(server: ServerProcess, number: signal.Signals) -> None:
    """Under load from many connections, acknowledged messages exist once after the next start."""
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=4)
    acknowledged: list[set[bytes]] = [set() for _ in range(8)]
    last_status: list[int | None] = [None] * 8

    def send_until_logged(worker: int) -> None:
        with RawConnection.as_root(server.address) as connection:
            for sequence in range(1_000_000):
                payload = b"%d %d" % (worker, sequence)
                request = frames.send("s", "t", frames.to_partition(worker % 4), [frames.message(payload)])
                status = connection.status(Code.SEND_MESSAGES, request)
                if status != Status.OK:
                    last_status[worker] = status
                    assert connection.wait_closed()
                    return
                acknowledged[worker].add(payload)

    workers = [threading.Thread(target=send_until_logged, args=(worker,)) for worker in range(8)]
    for worker in workers:
        worker.start()
    eventually("all clients send", lambda: all(acknowledged) and sum(map(len, acknowledged)) > 200)
    stopped_quickly(server, number)
    for worker in workers:
        worker.join(60)
    assert last_status == [Status.DISCONNECTED] * 8
    server.start()
    found: list[bytes] = []
    with RawConnection.as_root(server.address) as connection:
        for partition in range(4):
            found += connection.poll("s", "t", partition, Strategy.FIRST, count=1_000_000).payloads
    assert len(found) == len(set(found))
    assert set(found) == set().union(*acknowledged), "every send was answered, so there is nothing else"
    assert len(found) > 100


def test_pipelined_requests_are_answered_first(server: ServerProcess) -> None:
    """Received requests are answered in order; status 8 follows."""
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        request = frames.request(
            Code.SEND_MESSAGES, frames.send("s", "t", frames.to_partition(0), [frames.message(b"m" * 1000)])
        )
        connection.socket.sendall(request * 500)
        assert connection.receive() == Reply(Status.OK)
        stopped_quickly(server)
        answers = 1
        while (reply := connection.receive()).status == Status.OK:
            answers += 1
        assert reply == Reply(Status.DISCONNECTED)
        assert connection.wait_closed()
    server.start()
    with RawConnection.as_root(server.address) as connection:
        (last,) = connection.poll("s", "t", 0, Strategy.LAST, count=1).messages
        assert last.offset == answers - 1


@pytest.mark.parametrize(
    ("code", "payload"),
    [
        (Code.LOGIN_USER, frames.login(USERNAME, PASSWORD)),
        (Code.LOGIN_USER, frames.login(USERNAME, "wrong")),
    ],
    ids=["login", "refused login"],
)
def test_a_login_in_flight_is_answered(server: ServerProcess, code: Code, payload: bytes) -> None:
    """Requests that wait for the control plane delay the shutdown no longer than their response takes."""
    connections = [RawConnection(server.address) for _ in range(4)]
    for connection in connections:
        assert connection.is_alive()
    for connection in connections:
        connection.send_frame(code, payload)
    stopped_quickly(server)
    for connection in connections:
        status = connection.receive().status
        if status != Status.DISCONNECTED:
            assert status in (Status.OK, Status.INVALID_CREDENTIALS)
            assert connection.receive() == Reply(Status.DISCONNECTED)
        assert connection.wait_closed()
        connection.close()
    server.start()


def test_a_creation_in_flight_is_answered_or_not_made(server: ServerProcess) -> None:
    """A catalog change with a successful response exists after the next start."""
    connections = [RawConnection.as_root(server.address) for _ in range(4)]
    for number, connection in enumerate(connections):
        for nth in range(5):
            connection.send_frame(Code.CREATE_STREAM, frames.name(f"s {number} {nth}"))
    stopped_quickly(server)
    created = set()
    for number, connection in enumerate(connections):
        nth = 0
        while (reply := connection.receive()).status == Status.OK:
            created.add(f"s {number} {nth}")
            nth += 1
        assert reply.status == Status.DISCONNECTED
        connection.close()
    server.start()
    with RawConnection.as_root(server.address) as connection:
        for name in created:
            assert connection.ok(Code.GET_STREAM, frames.ident(name))


@pytest.mark.long
def test_a_client_that_does_not_read_loses_no_messages(start_server: StartServer) -> None:
    """Messages of durability `memory` are written, although a client that does not read takes the time for answers."""
    server = start_server({"DURABILITY": "memory", "MESSAGE_SAVER_INTERVAL": "1 h"})
    with RawConnection.as_root(server.address) as connection, RawConnection.as_root(server.address) as deaf:
        connection.create_topic("s")
        connection.create_topic("large")
        # An answer that may take longer to be read than the server waits.
        connection.send("large", "t", 0, *[bytes(4000)] * 1000)
        deaf.socket.settimeout(0.5)
        poll = frames.request(Code.POLL_MESSAGES, frames.poll("large", "t", 0, Strategy.FIRST, count=1000))
        with pytest.raises(TimeoutError):
            deaf.socket.sendall(poll * 1_000_000)
        connection.send("s", "t", 0, b"kept")
        assert server.stop() == 0
        assert "still unanswered" in server.log_tail()
    server.start()
    with RawConnection.as_root(server.address) as connection:
        assert connection.poll("s", "t", 0, Strategy.FIRST).payloads == [b"kept"]


def test_no_client_is_accepted_any_more(server: ServerProcess) -> None:
    """After the stop the port is free."""
    address = server.address
    stopped_quickly(server)
    with pytest.raises(ConnectionRefusedError):
        RawConnection(address)
    with socket.create_server((server.host, server.port)):
        pass
    server.start()
    assert server.address == address


def test_a_second_signal_ends_it_at_once(start_server: StartServer) -> None:
    """A second SIGINT stops the server at once; acknowledged messages are kept."""
    server = start_server()
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        connection.send("s", "t", 0, b"kept")
        connection.send("s", "t", 0, *[bytes(1000)] * 1000)
        connection.socket.settimeout(0.5)
        poll = frames.request(Code.POLL_MESSAGES, frames.poll("s", "t", 0, Strategy.FIRST, count=1000))
        with pytest.raises(TimeoutError):
            connection.socket.sendall(poll * 1_000_000)
        server.process.send_signal(signal.SIGINT)
        # Two signals that are pending at the same time are one.
        eventually("it stops", lambda: "stopping: " in server.log_tail())
        server.process.send_signal(signal.SIGINT)
        assert server.wait(30) == 130
    server.start()
    with RawConnection.as_root(server.address) as connection:
        assert connection.poll("s", "t", 0, Strategy.FIRST, count=1).payloads == [b"kept"]


def test_a_signal_during_the_start(start_server: StartServer) -> None:
    """A signal at any time during startup ends the process, and the next start works."""
    server = start_server()
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=200)
    server.stop()
    for delay in (0.05, 0.15, 0.25, 0.35, 0.5):
        process = server.spawn()
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        # Before Python has installed its handlers, the signal itself ends the process.
        assert server.wait(60) in (0, -signal.SIGTERM)
    server.start()
    with RawConnection.as_root(server.address) as connection:
        connection.send("s", "t", 199, b"m")


def test_one_server_per_directory(server: ServerProcess) -> None:
    """LOG-13: a second server is refused with the reason and the owner, and does not disturb the first."""
    published = (server.data / "runtime/current_config.toml").read_bytes()
    process = subprocess.run(
        [sys.executable, "-m", "headrace", "up", "--data", server.data, "--address", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 1
    assert "is in use by another server" in process.stderr
    assert str(server.process.pid) in process.stderr
    assert (server.data / "runtime/current_config.toml").read_bytes() == published
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        connection.send("s", "t", 0, b"m")
    server.kill()
    server.start()
    with RawConnection.as_root(server.address) as connection:
        assert connection.poll("s", "t", 0, Strategy.FIRST).payloads == [b"m"]
