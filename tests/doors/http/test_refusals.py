"""How requests are refused: statuses and forms (GW-9)."""

from __future__ import annotations

import socket

import pytest

from tests.conftest import StartServer
from tests.doors.http.api import PROBLEM, Api, rights
from tests.doors.http.conftest import Reach
from tests.server_process import ServerProcess

PROBLEM_FIELDS = {"type", "title", "status", "detail", "code", "name", "field", "request_id"}


@pytest.mark.parametrize(
    ("raw", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b'{"name": "\xff"}', "application/json", 400),
        (b'{"name": "x"', "application/json", 400),
        (b'{"name": "x", "more": ' + b"[" * 100_000, "application/json", 400),
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
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.body
    problem = await root("POST", "/streams", raw=raw, headers=headers | {"Accept": PROBLEM})
    assert (problem.status, problem.headers["Content-Type"]) == (status, PROBLEM)
    assert problem.data.keys() == PROBLEM_FIELDS
    assert (problem.data["status"], problem.data["code"]) == (status, None)


async def test_refusals_carry_a_stable_code(root: Api) -> None:
    answer = await root("PUT", "/streams/nowhere", {"name": "x"})
    assert answer.status == 404
    assert answer.data.keys() == {"id", "code", "reason", "field"}
    assert (answer.data["id"], answer.data["code"], answer.data["field"]) == (1009, "stream_id_not_found", "stream_id")
    headers = {"Accept": PROBLEM, "X-Request-Id": "my-request"}
    problem = await root("PUT", "/streams/nowhere", {"name": "x"}, headers=headers)
    assert problem.data.keys() == PROBLEM_FIELDS
    assert (problem.status, problem.data["code"], problem.data["name"]) == (404, 1009, "stream_id_not_found")
    assert problem.data["request_id"] == problem.headers["X-Request-Id"] == "my-request"


async def test_who_accepts_problems_is_told_more_precisely(root: Api) -> None:
    await root.ok("POST", "/streams", {"name": "twice"})
    assert (await root("POST", "/streams", {"name": "twice"})).status == 400
    assert (await root("POST", "/streams", {"name": "twice"}, headers={"Accept": PROBLEM})).status == 409


async def test_existence_is_checked_before_the_right(root: Api) -> None:
    guest = await root.create_user("without-rights", rights())
    await root.ok("POST", "/streams", {"name": "there"})
    assert (await guest("DELETE", "/streams/there")).status == 403
    assert (await guest("DELETE", "/streams/not-there")).status == 404


async def test_paths_and_methods(root: Api, nobody: Api) -> None:
    assert (await nobody("GET", "/nothing")).status == 401
    missing = await root("GET", "/nothing")
    assert (missing.status, missing.body) == (404, b"")
    wrong = await root("PATCH", "/streams")
    assert (wrong.status, wrong.body) == (405, b"")
    assert set(wrong.headers["Allow"].split(",")) == {"GET", "POST"}
    for path in ("/streams/", "//streams", "/Streams", "/ping/"):
        assert (await root("GET", path)).status == 404, path


async def test_every_answer_has_an_id(nobody: Api) -> None:
    first, second = await nobody("GET", "/ping"), await nobody("GET", "/ping")
    assert first.headers["X-Request-Id"] != second.headers["X-Request-Id"]
    kept = await nobody("GET", "/ping", headers={"X-Request-Id": "a.b:c/1"})
    assert kept.headers["X-Request-Id"] == "a.b:c/1"
    replaced = await nobody("GET", "/ping", headers={"X-Request-Id": "a" * 129})
    assert replaced.headers["X-Request-Id"] != "a" * 129


async def test_too_many_requests(start_server: StartServer, reach: Reach) -> None:
    """By user, and by address as long as nobody is logged in."""
    server = start_server({"HTTP_RATE_LIMIT_REQUESTS_PER_SECOND": "1", "HTTP_RATE_LIMIT_BURST": "4"})
    nobody = reach(server)
    root = await nobody.login()
    statuses = [(await root("GET", "/streams")).status for _ in range(12)]
    assert statuses[:4] == [200] * 4
    assert 429 in statuses
    while (answer := await root("GET", "/streams")).status != 429:
        pass
    assert int(answer.headers["Retry-After"]) >= 1
    while (answer := await nobody("GET", "/streams")).status != 429:
        assert answer.status == 401
    problem = await nobody("GET", "/streams", headers={"Accept": PROBLEM})
    assert (problem.status, problem.data["status"]) == (429, 429)


def test_what_is_no_http_leaves_no_trace(server: ServerProcess) -> None:
    """It is answered with 400, and the log does not grow with what strangers send (GW-9)."""
    host, port = server.http_url.removeprefix("http://").split(":")
    for garbage in (
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
        b"NOT HTTP\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(garbage)
            assert connection.recv(1000).startswith(b"HTTP/1.") or garbage.startswith(b"\x16")
    assert "Traceback" not in server.log.read_text()
