"""Sessions end promptly with their credential, over every transport and even while waiting; or by a command."""

from __future__ import annotations

import json
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing

import grpc
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from headrace_core import encode_change_password
from headrace_proto.gateway import v1
from tests.apis.commands.callers import BinaryCaller, CallerOverQuic
from tests.apis.commands.table import Command
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.compatibility.protocol import frames, long_poll
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

SOON_SECONDS = 20.0
"""Maximum delay: one second, with room for a busy machine."""
WAIT_SECONDS = 60.0
"""Duration of a wait that is not interrupted."""
ME = Command(name="GET_ME", code=Code.GET_ME)
TOKEN = "grpc"
"""Name of the token that `access_token` creates."""


class Victim:
    """A user with a password and an access token, whose sessions are ended."""

    def __init__(self, server: ServerProcess, root: RawConnection, name: str) -> None:
        self.server, self.root, self.name = server, root, name
        root.create_topic(name, "t", 1)
        root.ok(Code.CREATE_USER, frames.create_user(name, "secret", frames.permissions(["read_streams"])))
        with RawConnection.as_user(server.address, name, "secret") as connection:
            self.token = access_token(connection)

    def deactivated(self) -> None:
        self.root.ok(Code.UPDATE_USER, frames.ident(self.name) + b"\x00\x01\x02")

    def with_another_password(self) -> None:
        with RawConnection.as_user(self.server.address, self.name, "secret") as connection:
            changed = encode_change_password(user=self.name, current_password="secret", new_password="another")
            connection.ok(*changed)
            connection.ok(Code.GET_ME)

    def without_the_token(self) -> None:
        with RawConnection.as_user(self.server.address, self.name, "secret") as connection:
            connection.ok(Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name(TOKEN))

    def deleted(self) -> None:
        self.root.ok(Code.DELETE_USER, frames.ident(self.name))


ENDS: dict[str, Callable[[Victim], None]] = {
    "deactivated": Victim.deactivated,
    "password": Victim.with_another_password,
    "token": Victim.without_the_token,
    "deleted": Victim.deleted,
}


@pytest.fixture
def victim(shared_server: ServerProcess, request: pytest.FixtureRequest):
    with RawConnection.as_root(shared_server.address) as root:
        name = "ends-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-30:]
        yield Victim(shared_server, root, name)


def login_token(victim: Victim) -> str:
    """Token of a login with the access token over HTTP."""
    body = json.dumps({"token": victim.token}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{victim.server.http_url}/personal-access-tokens/login", body, headers)
    with urllib.request.urlopen(request, timeout=SOON_SECONDS) as response:
        return json.loads(response.read())["access_token"]["token"]


@pytest.mark.parametrize("end", ENDS)
def test_connections_of_the_binary_protocol(victim: Victim, end: str) -> None:
    """TCP, WebSocket and QUIC, also during a wait. A login with the password survives the deletion of the token."""
    server = victim.server
    with ExitStack() as stack:
        callers = [
            stack.enter_context(closing(BinaryCaller.over_tcp(server, victim.token))),
            stack.enter_context(closing(BinaryCaller.over_websocket(server, victim.token))),
            stack.enter_context(closing(CallerOverQuic(server, victim.token))),
        ]
        by_password = stack.enter_context(RawConnection.as_user(server.address, victim.name, "secret"))
        waits = stack.enter_context(RawConnection(server.address))
        waits.ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name(victim.token))
        waits.send_frame(Code.WAIT_MESSAGES, long_poll.wait(victim.name))
        assert [caller.ask(ME, "") for caller in callers] == [Status.OK] * 3
        ENDS[end](victim)
        begun = time.monotonic()
        # A password change also ends sessions of the token: a holder of the old password may have created it.
        assert [caller.ask(ME, "") for caller in callers] == [Status.UNAUTHENTICATED] * 3
        assert waits.receive().status == Status.UNAUTHENTICATED
        assert time.monotonic() - begun < SOON_SECONDS
        expected = Status.OK if end == "token" else Status.UNAUTHENTICATED
        assert by_password.status(Code.GET_ME) == expected


@pytest.mark.long
def test_a_token_that_expires(victim: Victim) -> None:
    with RawConnection.as_user(victim.server.address, victim.name, "secret") as connection:
        answer = connection.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("short") + frames.u64(8_000_000))
        token = answer[1 : 1 + answer[0]].decode()
        with RawConnection(victim.server.address) as waits:
            waits.ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name(token))
            waits.send_frame(Code.WAIT_MESSAGES, long_poll.wait(victim.name))
            begun = time.monotonic()
            assert waits.receive().status == Status.UNAUTHENTICATED
            assert time.monotonic() - begun < SOON_SECONDS
            assert waits.status(Code.GET_ME) == Status.UNAUTHENTICATED
        connection.ok(Code.GET_ME)


@pytest.mark.parametrize("end", [end for end in ENDS if end != "password"])
def test_streams_of_grpc(victim: Victim, end: str) -> None:
    """A silent call ends as well. An access token is for programs and does not depend on the password."""
    with GrpcCaller(victim.server.grpc_address, victim.token) as caller:
        topic = {"stream": v1.Identifier(name=victim.name), "topic": v1.Identifier(name="t")}
        watching = caller.subscriptions.Watch(v1.WatchRequest(topics=[v1.WatchedTopic(**topic)]), timeout=WAIT_SECONDS)
        next(watching)
        ENDS[end](victim)
        begun = time.monotonic()
        with pytest.raises(grpc.RpcError) as raised:
            list(watching)
        assert time.monotonic() - begun < SOON_SECONDS
        refused = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
        assert status_of(raised.value)[0] in refused


@pytest.mark.parametrize("end", ENDS)
def test_answers_of_http_that_wait(victim: Victim, end: str) -> None:
    """Server-sent events with the token of a login end."""
    token = login_token(victim)
    url = f"{victim.server.http_url}/streams/{victim.name}/topics/t/events?partition_id=0"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as events:
        assert events.readline() == b": begun\n"
        ENDS[end](victim)
        begun = time.monotonic()
        rest = events.read()
        assert time.monotonic() - begun < SOON_SECONDS
        assert b"event: error" in rest, rest
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=SOON_SECONDS)
    with refused.value as answer:
        assert answer.code == 401


@pytest.mark.parametrize("end", ENDS)
def test_subscriptions_of_browsers(victim: Victim, end: str) -> None:
    token = login_token(victim)
    address = victim.server.http_url.replace("http://", "ws://") + "/ws"
    with connect(address) as socket:
        socket.send(json.dumps({"type": "login", "id": 1, "token": token}))
        assert json.loads(socket.recv(SOON_SECONDS))["type"] == "ok"
        ENDS[end](victim)
        begun = time.monotonic()
        with pytest.raises(ConnectionClosedError, match="4401"):
            list(socket)
        assert time.monotonic() - begun < SOON_SECONDS


def test_a_client_is_disconnected(victim: Victim) -> None:
    """Disconnect a client by its id over any transport; other clients are unaffected."""
    with (
        RawConnection.as_user(victim.server.address, victim.name, "secret") as unwanted,
        RawConnection.as_user(victim.server.address, victim.name, "secret") as other,
    ):
        (client_id,) = struct.unpack_from("<I", unwanted.ok(Code.GET_ME))
        assert other.status(Code.DISCONNECT_CLIENT, frames.u32(client_id)) == Status.UNAUTHORIZED
        victim.root.ok(Code.DISCONNECT_CLIENT, frames.u32(client_id))
        assert unwanted.wait_closed()
        other.ok(Code.GET_ME)
