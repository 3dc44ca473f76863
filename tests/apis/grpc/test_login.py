"""Login and logout over gRPC (GW-6, CTL-9): the same tokens and rules as in the HTTP API."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as Details

from headrace_proto.catalog.v1 import USER_STATUS_INACTIVE
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.server_process import PASSWORD, USERNAME, ServerProcess

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


def named(name: str) -> v1.Identifier:
    return v1.Identifier(name=name)


def log_in(server: ServerProcess, username: str = USERNAME, password: str = PASSWORD) -> v1.LoginResponse:
    with GrpcCaller(server.grpc_address, None) as anonymous:
        return anonymous.login.Login(v1.LoginRequest(username=username, password=password))


def refusal_of_login(server: ServerProcess, username: str, password: str) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as raised:
        log_in(server, username, password)
    return raised.value


def is_good(server: ServerProcess, token: str) -> bool:
    with GrpcCaller(server.grpc_address, token) as caller:
        try:
            caller.system.GetClusterMetadata(v1.GetClusterMetadataRequest())
        except grpc.RpcError as error:
            return status_of(error)[0] != UNAUTHENTICATED
    return True


def over_http(
    server: ServerProcess, method: str, path: str, token: str | None, body: object = None
) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with closing(http.client.HTTPConnection(server.http_address, timeout=20)) as connection:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_a_login_gives_a_token(shared_server: ServerProcess) -> None:
    before = time.time()
    identity = log_in(shared_server)
    assert identity.user_id == 0
    assert before + 3590 <= identity.expires_at_micros / 1_000_000 <= time.time() + 3600
    assert is_good(shared_server, identity.token)
    assert not is_good(shared_server, identity.token[:-3] + "abc")


@pytest.mark.parametrize(
    ("username", "password", "code", "status"),
    [
        (USERNAME, "wrong", UNAUTHENTICATED, Status.INVALID_CREDENTIALS),
        ("nobody-here", PASSWORD, UNAUTHENTICATED, Status.INVALID_CREDENTIALS),
        ("x", PASSWORD, grpc.StatusCode.INVALID_ARGUMENT, Status.INVALID_USERNAME),
        (USERNAME, "", grpc.StatusCode.INVALID_ARGUMENT, Status.INVALID_PASSWORD),
    ],
)
def test_refused_logins(
    shared_server: ServerProcess, username: str, password: str, code: grpc.StatusCode, status: int
) -> None:
    assert status_of(refusal_of_login(shared_server, username, password)) == (code, status)


def test_one_token_for_both_listeners(shared_server: ServerProcess) -> None:
    mine = log_in(shared_server).token
    assert over_http(shared_server, "GET", "/streams", mine)[0] == 200
    body = {"username": USERNAME, "password": PASSWORD}
    _, answer = over_http(shared_server, "POST", "/users/login", None, body)
    theirs = json.loads(answer)["access_token"]["token"]
    assert is_good(shared_server, theirs)
    assert over_http(shared_server, "DELETE", "/users/logout", theirs)[0] == 204
    assert not is_good(shared_server, theirs)
    with GrpcCaller(shared_server.grpc_address, mine) as caller:
        caller.login.Logout(v1.LogoutRequest())
    assert over_http(shared_server, "GET", "/streams", mine)[0] == 401
    assert not is_good(shared_server, mine)


def test_a_token_is_exchanged_once(shared_server: ServerProcess) -> None:
    old = log_in(shared_server).token
    with GrpcCaller(shared_server.grpc_address, old) as caller:
        new = caller.login.Refresh(v1.RefreshRequest())
        assert new.user_id == 0
        with pytest.raises(grpc.RpcError) as raised:
            caller.login.Refresh(v1.RefreshRequest())
    assert status_of(raised.value) == (UNAUTHENTICATED, Status.INVALID_ACCESS_TOKEN)
    assert is_good(shared_server, new.token)


def test_what_comes_of_an_access_token_ends_with_it(shared_server: ServerProcess) -> None:
    with RawConnection.as_root(shared_server.address) as connection:
        personal = access_token(connection, "for a login")
    with GrpcCaller(shared_server.grpc_address, personal) as caller:
        token = caller.login.LoginWithAccessToken(v1.LoginWithAccessTokenRequest(token=personal)).token
        assert is_good(shared_server, token)
        for call, request in ((caller.login.Logout, v1.LogoutRequest()), (caller.login.Refresh, v1.RefreshRequest())):
            with pytest.raises(grpc.RpcError) as raised:
                call(request)
            assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT, "an access token is no login"
        caller.accounts.DeleteAccessToken(v1.DeleteAccessTokenRequest(name="for a login"))
        with pytest.raises(grpc.RpcError) as raised:
            caller.login.LoginWithAccessToken(v1.LoginWithAccessTokenRequest(token=personal))
        assert status_of(raised.value)[1] == Status.RESOURCE_NOT_FOUND
    assert not is_good(shared_server, token)


@pytest.mark.parametrize("change", ["password", "status", "deleted"])
def test_what_ends_tokens_at_once(shared_server: ServerProcess, root: GrpcCaller, change: str) -> None:
    name = f"ends-by-{change}"
    root.accounts.CreateUser(v1.CreateUserRequest(username=name, password="secret"))
    token = log_in(shared_server, name, "secret").token
    assert is_good(shared_server, token)
    match change:
        case "password":
            with GrpcCaller(shared_server.grpc_address, token) as caller:
                passwords = {"current_password": "secret", "new_password": "secrets"}
                caller.accounts.ChangePassword(v1.ChangePasswordRequest(user=named(name), **passwords))
        case "status":
            root.accounts.UpdateUser(v1.UpdateUserRequest(user=named(name), status=USER_STATUS_INACTIVE))
        case _:
            root.accounts.DeleteUser(v1.DeleteUserRequest(user=named(name)))
    assert not is_good(shared_server, token)


def test_a_stream_does_not_outlast_its_token(shared_server: ServerProcess, root: GrpcCaller, stream: str) -> None:
    root.catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    within = {"stream": named(stream)}
    settings = v1.TopicSettings(name="t")
    root.catalog.CreateTopic(v1.CreateTopicRequest(**within, settings=settings, partitions_count=1))
    batch = v1.ProduceRequest(**within, topic=named("t"), messages=[v1.NewMessage(payload=b"m")])
    with GrpcCaller(shared_server.grpc_address, log_in(shared_server).token) as caller:

        def batches() -> Iterator[v1.ProduceRequest]:
            yield batch
            caller.login.Logout(v1.LogoutRequest())
            yield batch

        call = caller.messages.ProduceStream(batches())
        with pytest.raises(grpc.RpcError) as raised:
            list(call)
    assert status_of(raised.value) == (UNAUTHENTICATED, Status.INVALID_ACCESS_TOKEN)


def test_guessing_gets_slow(start_server: StartServer) -> None:
    """Failures of one address are counted across all APIs, and the response has the time until the next attempt."""
    server = start_server({"LOGIN_FAILURES_MAX": "3", "LOGIN_FAILURES_INTERVAL": "1 h"})
    wrong = {"username": USERNAME, "password": "wrong"}
    assert over_http(server, "POST", "/users/login", None, wrong)[0] == 400
    for _ in range(2):
        assert status_of(refusal_of_login(server, USERNAME, "wrong"))[1] == Status.INVALID_CREDENTIALS
    error = refusal_of_login(server, USERNAME, PASSWORD)
    assert status_of(error) == (grpc.StatusCode.RESOURCE_EXHAUSTED, Status.TOO_MANY_LOGIN_ATTEMPTS)
    details = Details.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    assert details.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    info, retry = ErrorInfo(), RetryInfo()
    assert details.details[0].Unpack(info)
    assert details.details[1].Unpack(retry)
    assert (info.domain, info.reason, info.metadata["status"]) == ("headrace", "TooManyLoginAttempts", "20000")
    assert 0 < retry.retry_delay.seconds <= 3600
    assert over_http(server, "POST", "/users/login", None, wrong)[0] == 429


def test_tokens_end_with_the_process_when_there_is_no_secret(server: ServerProcess) -> None:
    token = log_in(server).token
    server.restart()
    assert not is_good(server, token)
