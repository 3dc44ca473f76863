"""Users of the HTTP interface who use all that their limits allow, and what another user notices of it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from tests.attacks.background_latency import PAUSE_SECONDS_MAX, WAIT_SECONDS_MAX
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import StartServer
from tests.server_process import PASSWORD, USERNAME, ServerProcess

JSON = {"Content-Type": "application/json"}
MEGABYTE = 1_000_000


class User:
    """A user of the HTTP interface with one login token."""

    def __init__(self, server: ServerProcess, username: str, password: str) -> None:
        self._server = server
        self.name, self.password = username, password
        self.token = self.login()

    def ask(self, method: str, path: str, body: object = None, *, source: str = "") -> tuple[int, bytes]:
        """Send one request over a connection of its own; return status and body."""
        address = self._server.host, _port(self._server)
        with closing(http.client.HTTPConnection(*address, 20, source_address=(source, 0))) as connection:
            encoded = json.dumps(body).encode() if body is not None else None
            connection.request(method, path, encoded, JSON | self.headers)
            response = connection.getresponse()
            return response.status, response.read()

    def login(self) -> str:
        """Log in; return the token."""
        self.token = ""
        status, body = self.ask("POST", "/users/login", {"username": self.name, "password": self.password})
        assert status == 200, body
        return str(json.loads(body)["access_token"]["token"])

    @property
    def headers(self) -> dict[str, str]:
        """Return the header with the token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def asked(self, path: str, method: str = "GET", *, reads_little: bool = False) -> socket.socket:
        """Send a request whose answer is not read."""
        connection = socket.socket()
        if reads_little:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect((self._server.host, _port(self._server)))
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        connection.sendall(head.encode())
        return connection


def _port(server: ServerProcess) -> int:
    return int(server.http_address.rpartition(":")[2])


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection, without reading what it has sent."""
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


@contextmanager
def users(server: ServerProcess) -> Iterator[tuple[User, User]]:
    """Make a topic with large messages; yield a hostile user who may only read it, and another one."""
    with RawConnection.as_root(server.address) as root:
        root.create_topic("shop", "orders")
        for _ in range(12):
            root.send("shop", "orders", 0, *[bytes(MEGABYTE)] * 5)
        root.create_topic("other", "t")
        root.send("other", "t", 0, b"x")
        rights = frames.permissions(["poll_messages", "read_topics"])
        root.ok(Code.CREATE_USER, frames.create_user("hostile", "password", rights))
    yield User(server, "hostile", "password"), User(server, USERNAME, PASSWORD)


@contextmanager
def unharmed(other: User, show: list[str]) -> Iterator[None]:
    """Poll, send and log in as another user for the duration of a ``with`` block, and fail if that takes long."""
    over = threading.Event()
    seconds: dict[str, list[float]] = {}
    failures: list[object] = []

    def polls() -> None:
        status, body = other.ask("GET", "/streams/other/topics/t/messages?partition_id=0&kind=first&count=1")
        assert (status, json.loads(body)["count"]) == (200, 1), body

    def waits() -> None:
        path = "/streams/other/topics/t/messages?partition_id=0&kind=first&count=1&wait_ms=5000"
        status, body = other.ask("GET", path)
        assert (status, json.loads(body)["count"]) == (200, 1), body

    def sends() -> None:
        message = {"partitioning": {"kind": "partition_id", "value": "AAAAAA=="}, "messages": [{"payload": "eA=="}]}
        status, body = other.ask("POST", "/streams/other/topics/t/messages", message)
        assert status == 201, body

    def logs_in() -> None:
        other_login = {"username": other.name, "password": other.password}
        status, body = other.ask("POST", "/users/login", other_login)
        assert status == 200, body

    def repeat(name: str, ask: Callable[[], None]) -> None:
        found = seconds.setdefault(name, [])
        while not over.is_set() or len(found) < 3:
            began = time.perf_counter()
            try:
                ask()
            except Exception as error:  # noqa: BLE001 - whatever it is, the test reports it
                failures.append((name, error))
                return
            found.append(time.perf_counter() - began)
            over.wait(0.01)

    kinds = (("poll", polls), ("wait", waits), ("send", sends), ("login", logs_in))
    threads = [threading.Thread(target=repeat, args=kind) for kind in kinds]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures
    for name, waited in seconds.items():
        ordered = sorted(waited)
        show.append(
            f"{name}: {len(ordered)} requests, p50 {ordered[len(ordered) // 2] * 1000:.0f} ms, "
            f"longest {ordered[-2] * 1000:.0f} and {ordered[-1] * 1000:.0f} ms"
        )
        assert ordered[-2] < WAIT_SECONDS_MAX, show[-1]
        assert ordered[-1] < PAUSE_SECONDS_MAX, show[-1]


LARGE = "/streams/shop/topics/orders/messages?partition_id=0&kind=first&count=60"


@pytest.mark.long
@pytest.mark.alone
def test_answers_that_are_not_read(start_server: StartServer, show: list[str]) -> None:
    """Regression: 15 unread polls of 16 MB took 813 MB, which stayed in use as long as the connections were open."""
    # Small answers of the node, so that its own buffers for them do not hide the memory of HTTP.
    server = start_server({"HTTP_MAX_BODIES_SIZE": "64 MiB", "TCP_MAX_RESPONSE_SIZE": "16 MiB"})
    with users(server) as (hostile, other), ExitStack() as stack:
        # The first answers of each kind allocate memory by themselves.
        hostile.ask("GET", LARGE)
        before, most = server.memory_bytes(), 0
        with unharmed(other, show):
            unread = [stack.enter_context(closing(hostile.asked(LARGE, reads_little=True))) for _ in range(15)]
            for _ in range(100):
                assert other.ask("GET", "/ping")[0] == 200
                most = max(most, server.memory_bytes())
            show.append(f"memory of 15 unread polls: {(most - before) / MEGABYTE:.0f} MB")
            assert most - before < 400 * MEGABYTE, show[-1]
        # Clients that do not read are disconnected; a refusal fits into the buffers and needs no reader.
        eventually("a reader's end", lambda: any(map(is_closed, unread)), timeout_seconds=60)
        eventually("his memory to be given back", lambda: hostile.ask("GET", LARGE)[0] == 200, timeout_seconds=60)


def statuses(connections: list[socket.socket]) -> list[int]:
    """Return the statuses of the answers that have begun, and 0 for requests that wait."""
    found = []
    for connection in connections:
        connection.settimeout(0.2)
        try:
            found.append(int(connection.recv(12)[9:]))
        except TimeoutError:
            found.append(0)
    return found


def test_waits(start_server: StartServer, show: list[str]) -> None:
    """Regression: event streams of one user took all waits, and every other wait was refused with 429."""
    server = start_server({"HTTP_MAX_WAITS": "20"})
    with users(server) as (hostile, other), ExitStack() as stack:
        paths = [
            "/streams/shop/topics/orders/events?partition_id=0&kind=end",
            "/streams/shop/topics/orders/messages?partition_id=0&kind=offset&value=99&wait_ms=60000",
        ] * 20
        held = [stack.enter_context(closing(hostile.asked(path))) for path in paths]
        found = statuses(held)
        assert found.count(429) == 30, "one user has half"
        assert found.count(200) + found.count(0) == 10
        with unharmed(other, show):
            status, body = hostile.ask("GET", paths[1])
            assert (status, json.loads(body)["code"]) == (429, "too_many_requests")


def test_members(start_server: StartServer, show: list[str]) -> None:
    """Regression: members of one user took all places, and no other user could join any group."""
    server = start_server({"HTTP_CONSUMER_GROUP_MAX_MEMBERS": "8"})
    with users(server) as (hostile, other):
        assert other.ask("POST", "/streams/shop/topics/orders/consumer-groups", {"name": "g"})[0] == 201
        assert other.ask("POST", "/streams/other/topics/t/consumer-groups", {"name": "g"})[0] == 201
        with unharmed(other, show):
            path = "/streams/shop/topics/orders/consumer-groups/g/members"
            found = [hostile.ask("POST", path)[0] for _ in range(20)]
            assert found == [201] * 4 + [429] * 16
            status, body = other.ask("POST", "/streams/other/topics/t/consumer-groups/g/members")
            assert status == 201, body


def ping_unharmed(other: User, show: list[str]) -> None:
    """Ask for fifty answers, while other requests of this user are measured."""
    with unharmed(other, show):
        for _ in range(50):
            assert other.ask("GET", "/ping")[0] == 200


def test_newcomers_with_made_up_names(start_server: StartServer, show: list[str]) -> None:
    """Regression: a login whose password was remembered took 5 s behind 60 callers with made-up names."""
    server = start_server()
    with users(server) as (_, other):
        over = threading.Event()

        def guess(number: int) -> None:
            made_up = {"username": f"made-up-{number}", "password": "password"}
            while not over.is_set():
                guessing.ask("POST", "/users/login", made_up, source=f"127.0.1.{number + 1}")

        guessing = User(server, USERNAME, PASSWORD)
        guessing.token = ""
        threads = [threading.Thread(target=guess, args=(number,)) for number in range(60)]
        for thread in threads:
            thread.start()
        try:
            ping_unharmed(other, show)
        finally:
            over.set()
            for thread in threads:
                thread.join()


@pytest.mark.parametrize("logs_in", [False, True], ids=["unknown", "user"])
def test_connections(start_server: StartServer, show: list[str], *, logs_in: bool) -> None:
    """Regression: who opened connections without end took every place, and no login over HTTP was answered."""
    server = start_server({"HTTP_MAX_CONNECTIONS": "40"})
    with users(server) as (hostile, other):
        over = threading.Event()

        def open_many() -> None:
            held: list[socket.socket] = []
            while not over.is_set():
                connection = socket.create_connection((server.host, _port(server)), 20, ("127.0.1.1", 0))
                if logs_in:
                    head = f"GET /streams HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {hostile.token}\r\n\r\n"
                    connection.sendall(head.encode())
                held.append(connection)
                if len(held) > 200:
                    held.pop(0).close()
            for connection in held:
                connection.close()

        opening = threading.Thread(target=open_many)
        opening.start()
        try:
            ping_unharmed(other, show)
        finally:
            over.set()
            opening.join()
