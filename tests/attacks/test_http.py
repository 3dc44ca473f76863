"""Unauthenticated clients of the HTTP interface and of `/ws`."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import struct
import time
from contextlib import ExitStack, closing, suppress

import pytest

from tests.attacks.background_latency import bystanders
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.server_process import ServerProcess

MANY_NUMBERS = b"[" + b",".join([b"1e308"] * 330_000) + b"]"
JSON = {"Content-Type": "application/json"}
TEXT, CLOSE, PING = 1, 8, 9


def answer(
    server: ServerProcess, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    host, _, port = server.http_address.rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), 20)) as connection:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def connected(server: ServerProcess) -> socket.socket:
    host, _, port = server.http_address.rpartition(":")
    return socket.create_connection((host, int(port)), 20)


def login(server: ServerProcess, username: str = "iggy", password: str = "iggy", **headers: str) -> int:
    body = json.dumps({"username": username, "password": password}).encode()
    return answer(server, "POST", "/users/login", body, JSON | headers)[0]


@pytest.mark.parametrize(
    "path", ["/users/login", "/personal-access-tokens/login", "/users/refresh-token"], ids=lambda path: path[1:]
)
def test_numbers_without_end(shared_server: ServerProcess, show: list[str], path: str) -> None:
    """Regression: 2 MB of `1e308`, or 3 KB of the same compressed, stopped the event loop for four seconds."""
    small = b"[" + b",".join([b"1e308"] * 650) + b"]"
    with bystanders(shared_server, show):
        for _ in range(5):
            assert answer(shared_server, "POST", path, MANY_NUMBERS, JSON)[0] == 413
            compressed = gzip.compress(MANY_NUMBERS)
            assert answer(shared_server, "POST", path, compressed, JSON | {"Content-Encoding": "gzip"})[0] == 415
            assert answer(shared_server, "POST", path, small, JSON)[0] == 422


def test_a_user_can_stop_no_other_either(shared_server: ServerProcess, show: list[str]) -> None:
    _, _, identity = answer(
        shared_server, "POST", "/users/login", json.dumps({"username": "iggy", "password": "iggy"}).encode(), JSON
    )
    token = json.loads(identity)["access_token"]["token"]
    with bystanders(shared_server, show):
        for _ in range(3):
            headers = JSON | {"Authorization": f"Bearer {token}"}
            assert answer(shared_server, "POST", "/streams", MANY_NUMBERS, headers)[0] == 422


def test_unfinished_bodies_take_no_memory(shared_server: ServerProcess) -> None:
    """Regression: 60 unauthenticated clients with unfinished bodies of 2 MB took 151 MB for a minute."""
    # The first login of a server allocates memory by itself.
    assert login(shared_server) == 200
    before = shared_server.memory_bytes()
    head = (
        b"POST /users/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with ExitStack() as stack:
        for size in (2_000_000, 4_000):
            for _ in range(60):
                unauthenticated = stack.enter_context(connected(shared_server))
                unauthenticated.settimeout(0.2)
                with suppress(TimeoutError, ConnectionError):
                    unauthenticated.sendall(head % size + bytes(size - 1))
        assert login(shared_server) == 200
        assert shared_server.memory_bytes() - before < 40_000_000


def test_an_origin_that_is_no_text_does_not_stop_the_audit_trail(shared_server: ServerProcess) -> None:
    """Regression: the event of such an origin could not be written, and every later login waited for ever."""
    with connected(shared_server) as unauthenticated:
        unauthenticated.sendall(
            b"GET /ws HTTP/1.1\r\nHost: localhost\r\nOrigin: http://\xff\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert unauthenticated.recv(12) == b"HTTP/1.1 403"
    assert login(shared_server) == 200


def test_the_log_is_the_servers_own(start_server: StartServer) -> None:
    """Regression: a path and a token of a client injected lines, colours and window titles into the log, with 2 KB of
    trace.
    """
    server = start_server({"HTTP_ACCESS_LOG": "true"})
    with connected(server) as unauthenticated:
        unauthenticated.sendall(
            b"GET /zzz%0aFORGED%1b[31m%1b]0;pwn%07 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\n\r\n"
        )
        assert unauthenticated.recv(12) == b"HTTP/1.1 401"
    with connected(server) as unauthenticated:
        unauthenticated.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert unauthenticated.recv(12) == b"HTTP/1.1 401"
    assert login(server, "a\x1b[31mb\nFORGED", "wrong") in {400, 401}
    server.stop()
    log = server.log.read_bytes()
    assert b"\x1b" not in log
    assert not any(line.startswith(b"FORGED") for line in log.splitlines())
    assert b"Traceback" not in log


def test_metrics_name_nothing_to_unauthenticated_clients(shared_server: ServerProcess) -> None:
    with RawConnection.as_root(shared_server.address) as root:
        root.create_topic("secret-stream", "secret-topic")
        path = frames.ident("secret-stream") + frames.ident("secret-topic")
        root.ok(Code.CREATE_CONSUMER_GROUP, path + frames.name("secret-group"))
    _, headers, body = answer(
        shared_server, "GET", "/metrics?detail=partitions", headers={"Origin": "https://evil.example"}
    )
    assert b"streams" in body
    assert b"secret" not in body
    assert "Access-Control-Allow-Origin" not in headers
    _, _, identity = answer(
        shared_server, "POST", "/users/login", json.dumps({"username": "iggy", "password": "iggy"}).encode(), JSON
    )
    token = json.loads(identity)["access_token"]["token"]
    logged_in = {"Authorization": f"Bearer {token}"}
    _, _, body = answer(shared_server, "GET", "/metrics", headers=logged_in)
    assert b"secret-group" in body
    # An access token opens the metrics, and nothing else.
    made = json.dumps({"name": "collector", "expiry": 0}).encode()
    _, _, body = answer(shared_server, "POST", "/personal-access-tokens", made, logged_in | JSON)
    collector = {"Authorization": f"Bearer {json.loads(body)['token']}"}
    _, _, body = answer(shared_server, "GET", "/metrics", headers=collector)
    assert b"secret-group" in body
    assert answer(shared_server, "GET", "/streams", headers=collector)[0] == 401
    assert answer(shared_server, "DELETE", "/personal-access-tokens/collector", headers=logged_in)[0] == 204
    assert answer(shared_server, "GET", "/metrics", headers=collector)[0] == 401


def test_malformed_requests_learn_nothing(shared_server: ServerProcess) -> None:
    with connected(shared_server) as unauthenticated:
        unauthenticated.sendall(b"GET / HTTP/1.1\r\nHost\r\n\r\n")
        head = unauthenticated.makefile("rb").read().lower()
    assert b"400 bad request" in head
    assert b"aiohttp" not in head


@pytest.mark.long
def test_failures_elsewhere_lock_no_user_out(start_server: StartServer) -> None:
    """Regression: 112 wrong passwords from twelve addresses caused the right one from another address to be refused."""
    server = start_server({"PROXY_TRUSTED": "[127.0.0.1]", "LOGIN_FAILURES_MAX": "3", "LOGIN_FAILURES_INTERVAL": "1 h"})

    def forwarded(address: str, password: str = "iggy", username: str = "iggy") -> int:
        return login(server, username, password, **{"X-Forwarded-For": address})

    assert forwarded("203.0.113.200") == 200
    for number in range(12):
        for _ in range(3):
            assert forwarded(f"203.0.113.{number}", "wrong-password") in {400, 429}
        assert forwarded(f"203.0.113.{number}") == 429
    assert forwarded("198.51.100.1") == 200, "who knows the password comes in from anywhere"
    for number in range(40):
        forwarded("203.0.113.200", "wrong-password", f"made-up-{number}")
    assert forwarded("203.0.113.200", username="nobody-else") == 429
    assert forwarded("203.0.113.200") == 200, "who was there before comes in"
    # An address that a client puts in front of the balancer's entry is ignored.
    assert forwarded("198.51.100.9, 203.0.113.3") == 429


def test_guessed_tokens_are_limited(start_server: StartServer) -> None:
    """Regression: each guess caused a request to the metadata service of a cluster."""
    # The interval is too long for another attempt to be allowed during the test.
    server = start_server({"LOGIN_FAILURES_MAX": "3", "LOGIN_FAILURES_INTERVAL": "1 h"})

    def shown(token: str) -> int:
        body = json.dumps({"token": token}).encode()
        return answer(server, "POST", "/personal-access-tokens/login", body, JSON)[0]

    found = [shown(f"guess{number}") for number in range(40)]
    assert set(found[:30]) == {404}
    assert found[-1] in {400, 429}
    assert login(server) == 200


def upgraded(server: ServerProcess) -> socket.socket:
    unauthenticated = connected(server)
    unauthenticated.sendall(
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        received += unauthenticated.recv(1)
    assert b" 101 " in received
    return unauthenticated


def frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 127]) + struct.pack(">Q", size)
    # A mask of zeros leaves the payload unchanged.
    return bytes([0x80 | opcode]) + length + bytes(4) + payload


def close_code(unauthenticated: socket.socket) -> int:
    """The code of the close frame; preceding frames are skipped."""
    with unauthenticated.makefile("rb") as received:
        while True:
            first, length = received.read(2)
            size = length if length < 126 else struct.unpack(">H", received.read(2))[0]
            payload = received.read(size)
            if first & 0x0F == CLOSE:
                return int.from_bytes(payload[:2], "big")


def test_a_first_message_is_a_login(shared_server: ServerProcess, show: list[str]) -> None:
    """Regression: 4 MiB of numbers before a login stopped the event loop for 16 seconds."""
    with bystanders(shared_server, show):
        for _ in range(3):
            with closing(upgraded(shared_server)) as unauthenticated:
                try:
                    unauthenticated.sendall(frame(TEXT, MANY_NUMBERS * 2))
                    assert close_code(unauthenticated) == 1009
                except ConnectionError:
                    # The server closed the connection while data was in flight.
                    pass
            with closing(upgraded(shared_server)) as unauthenticated:
                unauthenticated.sendall(frame(TEXT, MANY_NUMBERS[:4000] + b"1]"))
                assert close_code(unauthenticated) == 4400


def test_pings_are_counted(shared_server: ServerProcess, show: list[str]) -> None:
    """Regression: 180,000 pings stalled the event loop for half a second."""
    with bystanders(shared_server, show), closing(upgraded(shared_server)) as unauthenticated:
        began = time.monotonic()
        pings = frame(PING, b"") * 10_000
        try:
            while time.monotonic() - began < 60:
                unauthenticated.sendall(pings)
        except ConnectionError:
            pass
        else:
            pytest.fail("no one minds")


@pytest.mark.parametrize("path", ["/users/login", "/ping", "/metrics", "/ws"])
def test_pages_that_take_our_address_for_their_name(shared_server: ServerProcess, path: str) -> None:
    """Regression: a name that a page had resolved to this server (DNS rebinding) was accepted, at `/ws` with an open
    connection.
    """
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers = upgrade | {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "http://rebound.example:3000"}
    status, _, body = answer(shared_server, "GET", path, None, headers | {"Host": "rebound.example:3000"})
    assert status == 421
    assert "http.allowed_hosts" in json.loads(body)["detail"]
    status, _, _ = answer(
        shared_server, "OPTIONS", path, None, {"Host": "rebound.example", "Origin": "http://x.example"}
    )
    assert status == 421


def test_names_that_are_listed_are_answered(start_server: StartServer) -> None:
    server = start_server({"HTTP_ALLOWED_HOSTS": "headrace.example"})
    assert answer(server, "GET", "/ping", None, {"Host": "Headrace.example:8080"})[0] == 200
    assert answer(server, "GET", "/ping", None, {"Host": "localhost"})[0] == 200
    assert answer(server, "GET", "/ping", None, {"Host": "other.example"})[0] == 421
