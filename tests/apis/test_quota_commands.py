"""Quotas of users and topics (CTL-13), as each interface sets and shows them, and the connections that they allow."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

import headrace
from headrace_proto.catalog.v1 import Quota
from headrace_proto.errors import Status as ErrorStatus
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import PASSWORD, USERNAME, ServerProcess

GRANTED = frames.permissions(["manage_users"])


class Http:
    """HTTP as one user."""

    def __init__(self, server: ServerProcess, username: str = USERNAME, password: str = PASSWORD) -> None:
        self.url = server.http_url
        self.token = ""
        body = {"username": username, "password": password}
        self.token = json.loads(self("POST", "/users/login", body)[1])["access_token"]["token"]

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def get(self, path: str) -> Any:
        status, answer = self("GET", path)
        assert status == 200, answer
        return json.loads(answer)


@pytest.fixture
def root(shared_server: ServerProcess) -> Iterator[RawConnection]:
    with RawConnection.as_root(shared_server.address) as connection:
        yield connection


@pytest.fixture
def name(stream: str) -> str:
    """A name unique to one test, for paths of HTTP."""
    return hashlib.sha256(stream.encode()).hexdigest()[:16]


@pytest.fixture
def user(root: RawConnection, name: str) -> str:
    """A user who may manage users."""
    root.ok(Code.CREATE_USER, frames.create_user(name, "secret", GRANTED))
    return name


@pytest.fixture
def topic(root: RawConnection, name: str) -> tuple[str, str]:
    root.ok(Code.CREATE_STREAM, frames.name(name))
    root.ok(Code.CREATE_TOPIC, frames.create_topic(name, "t"))
    return name, "t"


def log_in(server: ServerProcess, user: str) -> RawConnection:
    connection = RawConnection(server.address)
    connection.ok(Code.LOGIN_USER, frames.login(user, "secret"))
    return connection


def test_http_sets_shows_lists_and_deletes(shared_server: ServerProcess, user: str, topic: tuple[str, str]) -> None:
    http = Http(shared_server)
    of_user, of_topic = f"/users/{user}/quota", f"/streams/{topic[0]}/topics/t/quota"
    none = {"sent_bytes_per_second": 0, "read_bytes_per_second": 0}
    assert http.get(of_user) == none | {"connections": 0}
    assert http.get(of_topic) == none | {"held_bytes": 0}

    quota = {"sent_bytes_per_second": 1024, "read_bytes_per_second": 2**64 - 1, "connections": 3}
    held = {"sent_bytes_per_second": 2048, "held_bytes": 2**40}
    assert http("PUT", of_user, quota) == (204, b"")
    assert http("PUT", of_topic, held) == (204, b"")
    assert http.get(of_user) == quota
    assert http.get(of_topic) == none | held
    listed = http.get("/quotas")
    assert [one for one in listed["users"] if one["username"] == user] == [
        quota | {"username": user, "user_id": http.get(f"/users/{user}")["id"]}
    ]
    assert [one for one in listed["topics"] if one["stream"] == topic[0]] == [
        none
        | held
        | {"stream": topic[0], "stream_id": http.get(f"/streams/{topic[0]}")["id"], "topic": "t", "topic_id": 0}
    ]

    assert http("PUT", of_topic, {"held_bytes": "1.5 GiB"}) == (204, b"")
    assert http.get(of_topic)["held_bytes"] == 3 * 2**29
    assert http("PUT", of_user, {"connections": 2}) == (204, b""), "the whole quota is replaced"
    assert http.get(of_user) == none | {"connections": 2}
    for path in (of_user, of_topic):
        assert http("DELETE", path) == http("DELETE", path) == (204, b"")
    listed = http.get("/quotas")
    assert user not in {one["username"] for one in listed["users"]}
    assert topic[0] not in {one["stream"] for one in listed["topics"]}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/users/{user}/quota", {"sent_bytes_per_second": 1023}, 400),
        ("/users/{user}/quota", {"read_bytes_per_second": -1}, 422),
        ("/users/{user}/quota", {"sent_bytes_per_second": 2**64}, 422),
        ("/users/{user}/quota", {"connections": 2**32}, 422),
        ("/users/{user}/quota", {"held_bytes": 1}, 422),
        ("/users/{user}/quota", {"sent_bytes_per_second": "much"}, 422),
        ("/users/{user}/quota", {"sent_bytes_per_second": "10 MiB\n"}, 422),
        ("/users/{user}/quota", {"sent_bytes_per_second": "1 KB"}, 400),
        ("/users/0/quota", {"connections": 1}, 400),
        ("/users/missing/quota", {"connections": 1}, 404),
        ("/streams/{stream}/topics/t/quota", {"connections": 1}, 422),
        ("/streams/{stream}/topics/t/quota", {"read_bytes_per_second": 1}, 400),
        ("/streams/{stream}/topics/missing/quota", {"held_bytes": 1}, 404),
    ],
)
def test_http_refuses(
    shared_server: ServerProcess, user: str, topic: tuple[str, str], path: str, body: dict[str, Any], status: int
) -> None:
    http = Http(shared_server)
    found, answer = http("PUT", path.format(user=user, stream=topic[0]), body)
    assert (found, http.get(f"/users/{user}/quota")["connections"]) == (status, 0), answer


def test_grpc(shared_server: ServerProcess, root: RawConnection, user: str, topic: tuple[str, str]) -> None:
    named = v1.Identifier(name=user)
    place = {"stream": v1.Identifier(name=topic[0]), "topic": v1.Identifier(name="t")}
    of_user = Quota(sent_bytes_per_second=1024, connections=3)
    of_topic = Quota(read_bytes_per_second=2048, held_bytes=5)
    with GrpcCaller(shared_server.grpc_address, access_token(root)) as caller:
        accounts, catalog = caller.accounts, caller.catalog
        accounts.SetUserQuota(v1.SetUserQuotaRequest(user=named, quota=of_user))
        catalog.SetTopicQuota(v1.SetTopicQuotaRequest(**place, quota=of_topic))
        assert accounts.GetUserQuota(v1.GetUserQuotaRequest(user=named)).quota == of_user
        assert catalog.GetTopicQuota(v1.GetTopicQuotaRequest(**place)).quota == of_topic
        listed = accounts.ListQuotas(v1.ListQuotasRequest())
        assert [one.quota for one in listed.users if one.username == user] == [of_user]
        assert [one.quota for one in listed.topics if one.stream == topic[0]] == [of_topic]

        invalid = (grpc.StatusCode.INVALID_ARGUMENT, ErrorStatus.INVALID_COMMAND)
        for call, request in (
            (accounts.SetUserQuota, v1.SetUserQuotaRequest(user=named, quota=Quota(held_bytes=1))),
            (accounts.SetUserQuota, v1.SetUserQuotaRequest(user=named, quota=Quota(sent_bytes_per_second=1))),
            (catalog.SetTopicQuota, v1.SetTopicQuotaRequest(**place, quota=Quota(connections=1))),
            (catalog.SetTopicQuota, v1.SetTopicQuotaRequest(**place, quota=Quota(read_bytes_per_second=1))),
        ):
            with pytest.raises(grpc.RpcError) as raised:
                call(request)
            assert status_of(raised.value) == invalid

        accounts.SetUserQuota(v1.SetUserQuotaRequest(user=named))
        catalog.SetTopicQuota(v1.SetTopicQuotaRequest(**place))
        assert accounts.GetUserQuota(v1.GetUserQuotaRequest(user=named)).quota == Quota()
        assert catalog.GetTopicQuota(v1.GetTopicQuotaRequest(**place)).quota == Quota()


def test_sdk(shared_server: ServerProcess, user: str, topic: tuple[str, str]) -> None:
    with headrace.connect(shared_server.address, username=USERNAME, password=PASSWORD) as client:
        client.set_user_quota(user, read_bytes_per_second=4096, connections=5)
        client.set_topic_quota(*topic, held_bytes=7)
        of_user, of_topic = client.user_quota(user), client.topic_quota(*topic)
        assert (of_user.sent_bytes_per_second, of_user.read_bytes_per_second, of_user.connections) == (0, 4096, 5)
        assert of_topic.held_bytes == 7
        listed = client.quotas()
        assert [one.quota for one in listed if one.username == user] == [of_user]
        assert [(one.topic, one.quota) for one in listed if one.stream == topic[0]] == [("t", of_topic)]
        with pytest.raises(headrace.InvalidArgument, match="read_bytes_per_second"):
            client.set_user_quota(user, read_bytes_per_second=1023)
        with pytest.raises(headrace.NotFound):
            client.user_quota("missing")
        client.set_topic_quota(*topic)
        assert client.topic_quota(*topic).held_bytes == 0


def test_whose_quota_it_is_does_not_change_it(
    shared_server: ServerProcess, root: RawConnection, user: str, topic: tuple[str, str]
) -> None:
    """A user manages others, and sees its own quota: also without a permission, and nothing of others then."""
    one = frames.ident(user) + bytes(24) + frames.u32(9)
    root.ok(Code.SET_USER_QUOTA, one)
    for more, name in ((["manage_users", "manage_streams"], f"b{user}"), ([], f"c{user}")):
        root.ok(Code.CREATE_USER, frames.create_user(name, "secret", frames.permissions(more)))
    with log_in(shared_server, user) as manager:
        assert manager.status(Code.SET_USER_QUOTA, one) == Status.UNAUTHORIZED
        assert manager.status(Code.SET_USER_QUOTA, frames.ident(user) + bytes(28)) == Status.UNAUTHORIZED
        boss = frames.ident(f"b{user}") + bytes(24) + frames.u32(1)
        assert manager.status(Code.SET_USER_QUOTA, boss) == Status.UNAUTHORIZED, "a user with more rights"
        manager.ok(Code.SET_USER_QUOTA, frames.ident(f"c{user}") + bytes(24) + frames.u32(8))
    root.ok(
        Code.SET_TOPIC_QUOTA, frames.ident(topic[0]) + frames.ident("t") + bytes(16) + frames.u64(5) + frames.u32(0)
    )
    http = Http(shared_server, f"c{user}", "secret")
    listed = http.get("/quotas")
    assert ([one["connections"] for one in listed["users"]], listed["topics"]) == ([8], [])
    assert http("GET", f"/users/{user}/quota")[0] == 403


def test_connections_are_refused_at_the_login(shared_server: ServerProcess, root: RawConnection, user: str) -> None:
    login = frames.login(user, "secret")
    root.ok(Code.SET_USER_QUOTA, frames.ident(user) + bytes(24) + frames.u32(2))
    with ExitStack() as stack:
        first, _ = (stack.enter_context(log_in(shared_server, user)) for _ in range(2))
        beyond = stack.enter_context(RawConnection(shared_server.address))
        assert beyond.status(Code.LOGIN_USER, login) == ErrorStatus.TOO_MANY_CONNECTIONS
        first.ok(Code.LOGIN_USER, login)
        first.ok(Code.LOGOUT_USER)
        beyond.ok(Code.LOGIN_USER, login)
        assert first.status(Code.LOGIN_USER, login) == ErrorStatus.TOO_MANY_CONNECTIONS
        root.ok(Code.SET_USER_QUOTA, frames.ident(user) + bytes(28))
        first.ok(Code.LOGIN_USER, login)


def test_changes_are_in_the_audit_trail(shared_server: ServerProcess, user: str, topic: tuple[str, str]) -> None:
    http = Http(shared_server)
    http("PUT", f"/users/{user}/quota", {"connections": 3})
    http("PUT", f"/streams/{topic[0]}/topics/t/quota", {"held_bytes": 5})
    found = [json.loads(line) for line in http("GET", "/audit?event=change&count=2")[1].splitlines()]
    assert [(one["action"], one["username"], one["result"]) for one in reversed(found)] == [
        ("set_user_quota", USERNAME, "ok"),
        ("set_topic_quota", USERNAME, "ok"),
    ]
    assert found[1]["subject"]["quota"] == {"connections": 3}
