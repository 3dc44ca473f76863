"""Error responses: status codes and formats (GW-9)."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from tests.apis.http.api import PROBLEM, Api, rights
from tests.apis.http.conftest import Reach
from tests.conftest import StartServer
from tests.server_process import ServerProcess

COMPATIBLE_FIELDS = {"type", "title", "status", "detail", "request_id", "id", "code", "reason", "field"}
PROBLEM_FIELDS = {"type", "title", "status", "detail", "code", "name", "field", "request_id"}


@pytest.mark.parametrize(
    ("raw", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b'{"name": "\xff"}', "application/json", 400),
        (b'{"name": "x"', "application/json", 400),
        (b'{"name": "x", "stream_id": ' + b"[" * 100_000, "application/json", 400),
        (b"[]", "application/json", 422),
        (b"{}", "application/json", 422),
        (b'{"name": 7}', "application/json", 422),
        (b'{"name": "x"}', None, 415),
        (b'{"name": "x"}', "text/plain", 415),
        (b'{"name": "' + b"x" * 2_000_000 + b'"}', "application/json", 413),
    ],
)
async def test_bodies_that_are_not_understood(root: Api, raw: bytes, content_type: str | None, status: int) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    answer = await root("POST", "/streams", raw=raw, headers=headers)
    assert answer.status == status
    assert answer.headers["Content-Type"] == PROBLEM
    assert answer.data.keys() == COMPATIBLE_FIELDS
    assert answer.data["id"] == answer.data["status"] == status
    assert answer.data["reason"] == answer.data["detail"]
    problem = await root("POST", "/streams", raw=raw, headers=headers | {"Accept": PROBLEM})
    assert (problem.status, problem.headers["Content-Type"]) == (status, PROBLEM)
    assert problem.data.keys() == PROBLEM_FIELDS
    assert (problem.data["status"], problem.data["code"]) == (status, None)


async def test_refusals_carry_a_stable_code(root: Api) -> None:
    answer = await root("PUT", "/streams/nowhere", {"name": "x"})
    assert answer.status == 404
    assert answer.headers["Content-Type"] == PROBLEM
    assert answer.data.keys() == COMPATIBLE_FIELDS
    assert (answer.data["id"], answer.data["code"], answer.data["field"]) == (1009, "stream_id_not_found", "stream_id")
    headers = {"Accept": PROBLEM, "X-Request-Id": "my-request"}
    problem = await root("PUT", "/streams/nowhere", {"name": "x"}, headers=headers)
    assert problem.data.keys() == PROBLEM_FIELDS
    assert (problem.status, problem.data["code"], problem.data["name"]) == (404, 1009, "stream_id_not_found")
    assert problem.data["request_id"] == problem.headers["X-Request-Id"] == "my-request"


async def test_who_accepts_problems_is_informed_more_precisely(root: Api) -> None:
    await root.ok("POST", "/streams", {"name": "twice"})
    assert (await root("POST", "/streams", {"name": "twice"})).status == 400
    assert (await root("POST", "/streams", {"name": "twice"}, headers={"Accept": PROBLEM})).status == 409


async def test_the_right_is_checked_before_existence(root: Api) -> None:
    guest = await root.create_user("without-rights", rights())
    await root.ok("POST", "/streams", {"name": "there"})
    assert (await guest("DELETE", "/streams/there")).status == 403
    assert (await guest("DELETE", "/streams/not-there")).status == 403
    assert (await root("DELETE", "/streams/not-there")).status == 404


async def test_paths_and_methods(root: Api, anonymous: Api) -> None:
    assert (await anonymous("GET", "/nothing")).status == 401
    missing = await root("GET", "/nothing")
    assert (missing.status, missing.headers["Content-Type"], missing.data["code"]) == (404, PROBLEM, "not_found")
    wrong = await root("PATCH", "/streams")
    assert (wrong.status, wrong.headers["Content-Type"], wrong.code) == (405, PROBLEM, 405)
    assert set(wrong.headers["Allow"].split(",")) == {"GET", "POST"}
    for path in ("/streams/", "//streams", "/Streams", "/ping/"):
        assert (await root("GET", path)).status == 404, path


async def test_every_answer_has_an_id(anonymous: Api) -> None:
    first, second = await anonymous("GET", "/ping"), await anonymous("GET", "/ping")
    assert first.headers["X-Request-Id"] != second.headers["X-Request-Id"]
    kept = await anonymous("GET", "/ping", headers={"X-Request-Id": "a.b:c/1"})
    assert kept.headers["X-Request-Id"] == "a.b:c/1"
    replaced = await anonymous("GET", "/ping", headers={"X-Request-Id": "a" * 129})
    assert replaced.headers["X-Request-Id"] != "a" * 129


async def test_too_many_requests(start_server: StartServer, reach: Reach) -> None:
    """Rate limits apply per user, and per address before a login."""
    server = start_server({"HTTP_RATE_LIMIT_REQUESTS_PER_SECOND": "1", "HTTP_RATE_LIMIT_BURST": "4"})
    anonymous = reach(server)
    root = await anonymous.login()
    statuses = [(await root("GET", "/streams")).status for _ in range(12)]
    assert statuses[:4] == [200] * 4
    assert 429 in statuses
    while (answer := await root("GET", "/streams")).status != 429:
        pass
    assert int(answer.headers["Retry-After"]) >= 1
    while (answer := await anonymous("GET", "/streams")).status != 429:
        assert answer.status == 401
    # The bucket may have refilled by one request.
    while (problem := await anonymous("GET", "/streams", headers={"Accept": PROBLEM})).status != 429:
        assert problem.status == 401
    assert problem.data["status"] == 429


def said(address: tuple[str, int], request: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Send raw bytes and return status, headers and body of the response."""
    with socket.create_connection(address, 10) as connection, connection.makefile("rb") as answer:
        connection.sendall(request)
        status = int(answer.readline().split()[1])
        fields = [line.decode().rstrip() for line in iter(answer.readline, b"\r\n")]
        headers = dict(field.split(": ", 1) for field in fields)
        return status, headers, json.loads(answer.read(int(headers["Content-Length"])))


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: \x00\r\n\r\n", 400),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"NOT HTTP\r\n\r\n", 400),
        (b"POST /streams HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\nno number\r\n", 400),
        (b"POST /streams HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 2\r\nExpect: wonders\r\n\r\n{}", 417),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /streams/\xff HTTP/1.1\r\nHost: localhost\r\n%s\r\n", 400),
        (b"DELETE /personal-access-tokens/\xff HTTP/1.1\r\nHost: localhost\r\n%s\r\n", 400),
        (b"GET /connectors/\xff HTTP/1.1\r\nHost: localhost\r\n%s\r\n", 400),
        (b"GET /streams/1/topics/1/messages?consumer_id=\xff HTTP/1.1\r\nHost: localhost\r\n%s\r\n", 400),
    ],
)
async def test_refusals_by_the_library_have_the_same_form(
    root: Api, shared_server: ServerProcess, request_bytes: bytes, status: int
) -> None:
    host, port = shared_server.http_address.split(":")
    head = f"Authorization: Bearer {root.token}\r\nContent-Type: application/json\r\n".encode()
    found, headers, body = await asyncio.to_thread(said, (host, int(port)), request_bytes.replace(b"%s", head))
    assert (found, headers["Content-Type"]) == (status, PROBLEM)
    assert body.keys() == COMPATIBLE_FIELDS
    assert (body["status"], body["request_id"]) == (status, headers["X-Request-Id"])
    assert headers["Server"] == "headrace"
    assert "Traceback" not in shared_server.log.read_text()


async def test_a_client_that_goes_amid_its_body_leaves_no_trace(root: Api, shared_server: ServerProcess) -> None:
    """A disconnect during the body is not an error of the server."""
    host, port = shared_server.http_address.split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /streams HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {root.token}\r\nX-Request-Id: gone\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{".encode())
    writer.close()
    await writer.wait_closed()

    async def is_counted() -> bool:
        text = (await root("GET", "/metrics")).body.decode()
        return 'http_request_duration_seconds_count{method="POST",route="/streams",status="400"}' in text

    async with asyncio.timeout(30):
        while not await is_counted():
            await asyncio.sleep(0.01)
    assert "gone failed" not in shared_server.log.read_text()


async def test_a_client_may_ask_before_it_sends_a_body(root: Api, shared_server: ServerProcess) -> None:
    host, port = shared_server.http_address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /streams HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {root.token}\r\nContent-Length: 2\r\n"
        "Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n".encode()
    )
    assert (await reader.readuntil(b"\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{}")
    assert b" 422 " in await reader.readline()
    writer.close()


def test_what_is_no_http_leaves_no_trace(server: ServerProcess) -> None:
    """Bytes that are not HTTP are answered with 400, and the log does not grow with them (GW-9)."""
    host, port = server.http_url.removeprefix("http://").split(":")
    for garbage in (
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: \x00\r\n\r\n",
        b"NOT HTTP\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(garbage)
            assert connection.recv(1000).startswith(b"HTTP/1.") or garbage.startswith(b"\x16")
    assert "Traceback" not in server.log.read_text()
