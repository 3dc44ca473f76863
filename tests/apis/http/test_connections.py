"""Limits for connections of unauthenticated clients: their number, their duration and the size of requests (GW-9)."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.compatibility.protocol.raw import eventually
from tests.conftest import StartServer
from tests.server_process import ServerProcess

REQUEST = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
IDLE_SECONDS = 8
PATIENT = {"HTTP_FIRST_REQUEST_TIMEOUT": "3 s"}


@contextlib.contextmanager
def connected(server: ServerProcess) -> Iterator[socket.socket]:
    host, _, port = server.http_address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        yield connection


def answer(connection: socket.socket) -> bytes:
    """The first line received; empty if the connection ends instead."""
    try:
        return connection.recv(65536).partition(b"\r\n")[0]
    except ConnectionError:
        return b""


def is_closed(connection: socket.socket) -> bool:
    return answer(connection) == b""


def sent_slowly(connection: socket.socket, byte: int) -> bool:
    """Return whether the byte could be sent."""
    time.sleep(0.05)
    try:
        connection.sendall(bytes([byte]))
    except ConnectionError:
        return False
    return True


def served(server: ServerProcess) -> bool:
    with connected(server) as connection:
        try:
            connection.sendall(REQUEST)
        except ConnectionError:
            return False
        return answer(connection) == b"HTTP/1.1 200 OK"


@pytest.mark.long
@pytest.mark.parametrize("path", [b"/ping", b"/ws"])
def test_who_never_finishes_a_request_is_closed(start_server: StartServer, path: bytes) -> None:
    """A head that is sent byte by byte does not extend the deadline; others are served meanwhile."""
    server = start_server(PATIENT)
    head = iter(b"GET %s HTTP/1.1\r\nX-Header: " % path + b"x" * 8000)
    with connected(server) as silent, connected(server) as slow:
        eventually("the end of the slow one", lambda: not sent_slowly(slow, next(head)))
        assert is_closed(silent)
        # The deadline holds for each of these attempts as well, which may be paused.
        eventually("service of others", lambda: served(server))


@pytest.mark.long
def test_who_asks_nothing_more_is_closed(start_server: StartServer) -> None:
    """The idle timeout also closes a connection in the middle of the next request. A connection with requests stays
    open.
    """
    # Longer than a pause of the connection that stays.
    server = start_server({"HTTP_FIRST_REQUEST_TIMEOUT": "10 s", "HTTP_IDLE_TIMEOUT": f"{IDLE_SECONDS} s"})
    with connected(server) as idle, connected(server) as slow, connected(server) as busy:
        for connection in (idle, slow, busy):
            connection.sendall(REQUEST)
            assert answer(connection) == b"HTTP/1.1 200 OK"
        slow.sendall(REQUEST[:20])
        until = time.monotonic() + IDLE_SECONDS + 1
        while time.monotonic() < until:
            busy.sendall(REQUEST)
            assert answer(busy) == b"HTTP/1.1 200 OK"
            time.sleep(0.3)
        assert is_closed(idle)
        assert is_closed(slow)


@pytest.mark.long
def test_a_slow_tls_handshake_is_closed(start_server: StartServer, tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("localhost")
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    files = {"HTTP_TLS_CERT_FILE": str(tmp_path / "cert.pem"), "HTTP_TLS_KEY_FILE": str(tmp_path / "key.pem")}
    server = start_server(PATIENT | files | {"HTTP_TLS_ENABLED": "true"})
    with connected(server) as silent, connected(server) as started:
        started.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert is_closed(silent)
        assert is_closed(started)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def is_served() -> bool:
        try:
            with connected(server) as plain, context.wrap_socket(plain) as encrypted:
                encrypted.sendall(REQUEST)
                return answer(encrypted) == b"HTTP/1.1 200 OK"
        except OSError:
            return False

    # The deadline holds for each of these attempts as well, which may be paused.
    eventually("service of others", is_served)


def test_one_connection_too_many(start_server: StartServer) -> None:
    """An excess connection takes the place of the oldest one without a login; the others stay open."""
    server = start_server({"HTTP_MAX_CONNECTIONS": "5"})
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(server)) for _ in range(5)]
        for connection in connections:
            connection.sendall(REQUEST)
            assert answer(connection) == b"HTTP/1.1 200 OK"
        assert served(server)
        assert is_closed(connections[0])
        eventually("a line about it", lambda: "http.max_connections = 5 are open" in server.log_tail())
        for connection in connections[1:]:
            connection.sendall(REQUEST)
            assert answer(connection) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: x\r\n" % n for n in range(1000)) + b"\r\n",
    ],
    ids=["the path", "a header", "headers"],
)
def test_what_is_too_long_is_refused(shared_server: ServerProcess, request_bytes: bytes) -> None:
    """The refusal comes before the request is complete, and its log line is short."""
    before = shared_server.log.stat().st_size
    with connected(shared_server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request_bytes)
        # The response is lost if the server closes before the client has sent everything.
        assert answer(connection) in (b"HTTP/1.0 400 Bad Request", b"")
    assert shared_server.log.stat().st_size - before < 2000
    assert served(shared_server)
