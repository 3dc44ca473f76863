"""The audit trail of a real server: user, action, source and target; durable across a kill, and without secrets."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import app
from headrace_core import (
    encode_change_password,
    encode_create_personal_access_token,
    encode_delete_personal_access_token,
)
from headrace_proto.errors import Status as ErrorStatus
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.compatibility.protocol.websocket import WebSocketConnection
from tests.server_process import PASSWORD, USERNAME, ServerProcess


def post(server: ServerProcess, path: str, body: dict[str, Any], token: str = "", method: str = "POST") -> bytes:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(server.http_url + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.read()


def login(server: ServerProcess, username: str = USERNAME, password: str = PASSWORD) -> str:
    answer = json.loads(post(server, "/users/login", {"username": username, "password": password}))
    return answer["access_token"]["token"]


def refused(ask: Callable[[], object]) -> int:
    """Return the status of a refused request."""
    with pytest.raises(urllib.error.HTTPError) as raised:
        ask()
    with raised.value as answer:
        return answer.code


def trail(server: ServerProcess, token: str, query: str = "") -> list[dict[str, Any]]:
    request = urllib.request.Request(f"{server.http_url}/audit{query}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line) for line in response.read().splitlines()]


def test_everything_is_there_with_its_caller(shared_server: ServerProcess) -> None:
    server = shared_server
    with RawConnection.as_root(server.address) as root:
        root.ok(Code.CREATE_USER, frames.create_user("limited", "a-secret"))
        root.ok(*encode_change_password(user="limited", current_password="a-secret", new_password="b-secret"))
        address = root.local_address
        token_of_root = access_token(root)
    with WebSocketConnection(server.websocket_address) as browser:
        assert browser.status(Code.LOGIN_USER, frames.login("limited", "x-secret")) == Status.INVALID_CREDENTIALS
        browser.ok(Code.LOGIN_USER, frames.login("limited", "b-secret"))
        assert browser.status(Code.CREATE_STREAM, frames.name("refused")) == Status.UNAUTHORIZED
    token = login(server)
    post(server, "/streams", {"name": "over-http"}, token)
    assert refused(lambda: post(server, "/streams", {"name": "over-http"}, token)) == 400
    with GrpcCaller(server.grpc_address, token_of_root) as caller:
        caller.catalog.CreateStream(v1.CreateStreamRequest(name="over-grpc"))
    limited = login(server, "limited", "b-secret")
    assert refused(lambda: trail(server, limited)) == 403

    found = trail(server, token)
    assert "secret" not in json.dumps(found)
    assert token_of_root not in json.dumps(found)
    changes = [
        (event["action"], event["username"], event["transport"], event["result"])
        for event in reversed(found)
        if event["event"] == "change"
    ]
    assert changes == [
        ("create_user", USERNAME, "tcp", "ok"),
        ("change_password", USERNAME, "tcp", "ok"),
        ("create_access_token", USERNAME, "tcp", "ok"),
        ("create_stream", USERNAME, "http", "ok"),
        ("create_stream", USERNAME, "http", "StreamNameAlreadyExists"),
        ("create_stream", USERNAME, "grpc", "ok"),
    ]
    assert [event["address"] for event in found if event["action"] == "create_user"] == [address]
    places = [event["address"].rpartition(":") for event in found]
    assert all(host == "127.0.0.1" and int(port) > 0 for host, _, port in places), places
    logins = [
        (event["username"], event["transport"], event["result"])
        for event in reversed(found)
        if event["event"] == "login" and event["username"] == "limited"
    ]
    assert logins == [
        ("limited", "websocket", "InvalidCredentials"),
        ("limited", "websocket", "ok"),
        ("limited", "http", "ok"),
    ]
    refusals = [(event["username"], event["transport"]) for event in found if event["event"] == "refusal"]
    assert sorted(refusals) == [("limited", "http"), ("limited", "websocket")]
    assert len(trail(server, token, "?event=change&result=failed")) == 1
    assert len(trail(server, token, "?user=limited&event=refusal&count=1")) == 1


def test_what_was_answered_survives_a_kill(
    server: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line reads the trail from the data directory as well."""
    with RawConnection.as_root(server.address) as root:
        root.ok(Code.CREATE_STREAM, frames.name("before the kill"))
        server.kill()
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(
        "sys.argv", ["headrace", "audit", "--data", str(server.data), "--action", "create_stream", "--json"]
    )
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 0
    (line,) = capsys.readouterr().out.splitlines()
    event = json.loads(line)
    assert (event["subject"], event["result"], event["username"]) == ({"name": "before the kill"}, "ok", USERNAME)


def test_a_user_without_rights_washes_nothing_away(tmp_path: Path) -> None:
    """Access tokens are what every user may create and delete."""
    settings = {
        "AUDIT_MAX_FILE_SIZE": "4 KiB",
        "AUDIT_MAX_FILES": "2",
        "OWN_CHANGES_BURST": "100",
        "OWN_CHANGES_INTERVAL": "1 h",
    }
    with ServerProcess(tmp_path / "data", settings) as server:
        with RawConnection.as_root(server.address) as root:
            root.ok(Code.CREATE_USER, frames.create_user("backdoor", "a-secret"))
        with RawConnection(server.address) as user:
            user.ok(Code.LOGIN_USER, frames.login("backdoor", "a-secret"))
            statuses = [
                user.status(code, payload)
                for _ in range(100)
                for code, payload in (
                    encode_create_personal_access_token(name="wash"),
                    encode_delete_personal_access_token(name="wash"),
                )
            ]
        assert statuses == [0] * 100 + [ErrorStatus.TOO_MANY_CHANGES] * 100
        token = login(server)
        assert [event["subject"]["username"] for event in trail(server, token, "?action=create_user")] == ["backdoor"]
        (refused_,) = trail(server, token, "?event=refusal&count=1")
        assert (refused_["result"], refused_["username"]) == ("TooManyChanges", "backdoor")
