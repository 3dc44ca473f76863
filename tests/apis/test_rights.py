"""Every command through every API: unauthenticated, without rights, and with each right: one decision (CTL-9).

The decisions are compared with the plain table of rights, so APIs that agree on a wrong decision fail as well.
"""

from __future__ import annotations

import json
import re
import struct
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing

import pytest

from headrace_proto.commands import Attribute, commands_with
from tests.apis.commands import grpc_requests, http_requests, push_requests
from tests.apis.commands.callers import (
    BinaryCaller,
    Caller,
    CallerOverGrpc,
    CallerOverHttp,
    CallerOverPush,
    CallerOverQuic,
)
from tests.apis.commands.table import LIMITED, Command, commands
from tests.apis.grpc.caller import access_token
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Reader
from tests.compatibility.protocol.codes import ANNOUNCED_EXTENSIONS, Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS
from tests.encryption.certificates import unverified
from tests.encryption.conftest import TLS
from tests.encryption.connection import TlsConnection
from tests.rights import ALL_RIGHTS, SERVER, SERVER_MANAGE, STREAM_RIGHTS, TOPIC_RIGHTS
from tests.server_process import ServerProcess

Statuses = dict[tuple[str, str], int]
"""Statuses by command, and by API with the variant of the request."""

STREAM, DOOMED, ELSEWHERE = 0, 1, 2
"""Ids of streams; the id of the second stream is reused after its deletion."""
TOPIC = 0
"""Id of the topic in each stream."""
ONE_OF_EACH_KIND = tuple(
    next(right for right in ALL_RIGHTS if right.startswith(kind)) for kind in ("manage", "S:", "T:")
)
NAMES = {
    row.name for row in commands(client_id=0, access_token="x") if row.code not in commands_with(Attribute.BINARY_ONLY)
}
"""Rows that other APIs may have."""


Listeners = Mapping[str, Callable[[str | None], Caller]]
"""Functions by API name that connect with a token, or unauthenticated."""


class Matrix:
    """Root, the user `limited`, and the APIs under test."""

    def __init__(self, root: RawConnection, other: RawConnection, listeners: Callable[[int, str], Listeners]) -> None:
        """Create the objects that the commands need.

        Args:
            root: A connection of root.
            other: An unauthenticated connection, used to create the token of `limited`.
            `listeners`: Creates the clients of all APIs from the client id of root's connection and that token.
        """
        self.root = root
        for stream in ("s", "doomed", "elsewhere"):
            root.create_topic(stream, "t", 2)
            root.ok(Code.CREATE_CONSUMER_GROUP, frames.ident(stream) + frames.ident("t") + frames.name("g"))
        root.send("s", "t", 0, b"m")
        root.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, 0, who=frames.consumer(2)))
        root.ok(Code.CREATE_USER, frames.create_user(LIMITED, LIMITED))
        other.ok(Code.LOGIN_USER, frames.login(LIMITED, LIMITED))
        self.token = access_token(other, LIMITED)
        (client_id,) = struct.unpack_from("<I", root.ok(Code.GET_ME))
        self.commands = commands(client_id=client_id, access_token=self.token)
        self.listeners = listeners(client_id, self.token)
        self.record: bytes | None = None

    def grant(self, right: str | None) -> None:
        """Give `limited` only this right; a right on a stream or topic is given where the commands need it."""
        scope, _, name = (right or "").rpartition(":")
        match scope:
            case "S":
                self.record = frames.permissions(streams={stream: [name] for stream in (STREAM, DOOMED)})
            case "T":
                self.record = frames.permissions(topics={(stream, TOPIC): [name] for stream in (STREAM, DOOMED)})
            case _:
                self.record = None if right is None else frames.permissions([name])
        self._give()

    def grant_elsewhere(self) -> None:
        """Give `limited` every right on another stream, and on another topic of the same streams."""
        self.record = frames.permissions(
            streams={ELSEWHERE: STREAM_RIGHTS},
            topics={(stream, TOPIC + 1): TOPIC_RIGHTS for stream in (STREAM, DOOMED)},
        )
        self._give()

    def ask_everywhere(self, *, logged_in: bool, only: Callable[[Command], bool] = lambda _: True) -> Statuses:
        """Send every command through every API as `limited`, or unauthenticated, and return the statuses."""
        token = self.token if logged_in else None
        found: Statuses = {}
        for listener, arrive in self.listeners.items():
            with closing(arrive(token)) as caller:
                for command in filter(only, self.commands):
                    for place, way in enumerate(caller.ways(command)):
                        found[command.name, f"{listener} {place}"] = self._ask(command, way, caller, arrive, token)
        return found

    def expected(self, asked: Statuses, decide: Callable[[Command], int]) -> Statuses:
        """Expected statuses according to the table."""
        decisions = {command.name: decide(command) for command in self.commands}
        return {(name, listener): decisions[name] for name, listener in asked}

    def _ask(
        self, command: Command, way: object, caller: Caller, arrive: Callable[[str | None], Caller], token: str | None
    ) -> int:
        with ExitStack() as stack:
            if command.changes_connection:
                caller = stack.enter_context(closing(arrive(token)))
            status = caller.ask(command, way)
        if status == Status.OK and command.undone_by:
            for code, payload in command.undone_by:
                self.root.ok(code, payload)
            # The rights on deleted objects were removed with them.
            self._give()
        return status

    def _give(self) -> None:
        self.root.ok(Code.UPDATE_PERMISSIONS, frames.ident(LIMITED) + frames.opt_permissions(self.record))


@pytest.fixture(scope="module")
def matrix(shared_server: ServerProcess) -> Iterator[Matrix]:
    """All APIs of a server with default settings."""
    server = shared_server

    def listeners(client_id: int, token: str) -> Listeners:
        calls = grpc_requests.calls(client_id=client_id, access_token=token)
        requests = http_requests.requests(client_id=client_id, access_token=token)
        messages = push_requests.messages(access_token=token)
        return {
            "tcp": lambda token: BinaryCaller.over_tcp(server, token),
            "websocket": lambda token: BinaryCaller.over_websocket(server, token),
            "quic": lambda token: CallerOverQuic(server, token),
            "grpc": lambda token: CallerOverGrpc(server, token, calls),
            "grpc, access token": lambda token: CallerOverGrpc(server, token, calls, logs_in=False),
            "http": lambda token: CallerOverHttp(server, token, requests),
            "push": lambda token: CallerOverPush(server, token, messages),
        }

    with RawConnection.as_root(server.address) as root, RawConnection(server.address) as other:
        yield Matrix(root, other, listeners)


@pytest.fixture(scope="module")
def encrypted_matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """The binary protocol over TLS."""
    server = ServerProcess(tmp_path_factory.mktemp("encrypted") / "data", TWO_SHARDS | TLS)
    with (
        server,
        TlsConnection.logged_in(server.address, unverified()) as root,
        TlsConnection(server.address, unverified()) as other,
    ):
        yield Matrix(root, other, lambda _id, _token: {"tls": lambda token: BinaryCaller.over_tls(server, token)})


def test_no_command_is_missing(matrix: Matrix) -> None:
    """The rows match the registry and the capabilities that the server announces."""
    assert {command.code for command in matrix.commands} == set(Code)
    reader = Reader(matrix.root.request(Code.CAPABILITIES).payload)
    _version, count = reader.number("I"), reader.number("I")
    # This server is no partition node: it refuses commands with a ticket and does not announce them.
    assert {reader.number("I") for _ in range(count)} == set(ANNOUNCED_EXTENSIONS)


def test_no_call_of_grpc_is_missing() -> None:
    """Each row has a call or is a known exception, and each method is used by some row."""
    calls = grpc_requests.calls(client_id=0, access_token="x")
    assert set(calls) | set(grpc_requests.ABSENT) == NAMES
    assert not set(calls) & set(grpc_requests.ABSENT)
    assert {path for ways in calls.values() for path, _ in ways} == grpc_requests.methods() - grpc_requests.NO_COMMANDS


def test_no_route_of_http_is_missing(shared_server: ServerProcess) -> None:
    """Each row has a request or is a known exception, and each route is used by some row."""
    requests = http_requests.requests(client_id=0, access_token="x")
    assert set(requests) | set(http_requests.ABSENT) == NAMES
    assert not set(requests) & set(http_requests.ABSENT)
    with urllib.request.urlopen(f"{shared_server.http_url}/openapi.json", timeout=20) as answer:
        paths = json.load(answer)["paths"]
    without_command = (
        *http_requests.MEMBERSHIP,
        *http_requests.CONNECTORS_READ,
        *http_requests.CONNECTORS_CHANGED,
    )
    asked = [*without_command, *(request for ways in requests.values() for request in ways)]
    for path, methods in paths.items():
        pattern = re.compile(re.sub(r"{\w+}", "[^/?]+", path) + r"(\?.*)?")
        for method in set(methods) & {"get", "post", "put", "delete", "patch"}:
            if path not in http_requests.NO_COMMANDS:
                assert any(it.method.lower() == method and pattern.fullmatch(it.path) for it in asked), (method, path)


def test_an_unauthenticated_client(matrix: Matrix) -> None:
    """Commands that are not public get the same status from every API."""
    asked = matrix.ask_everywhere(logged_in=False)
    assert asked == matrix.expected(asked, lambda row: row.status if row.is_public else Status.UNAUTHENTICATED)


def test_a_user_without_rights(matrix: Matrix) -> None:
    """A user without rights may only use commands on their own account and connection."""
    matrix.grant(None)
    asked = matrix.ask_everywhere(logged_in=True)
    assert asked == matrix.expected(asked, lambda row: row.status_for(None))


@pytest.mark.parametrize("right", ALL_RIGHTS)
def test_a_user_with_one_right(matrix: Matrix, right: str) -> None:
    """A right grants exactly its commands through every API."""
    matrix.grant(right)
    asked = matrix.ask_everywhere(logged_in=True, only=lambda row: bool(row.granted_by))
    assert asked == matrix.expected(asked, lambda row: row.status_for(right))


@pytest.mark.parametrize("right", [None, *sorted(SERVER), "manage_streams", "manage_users", "S:manage_stream"])
def test_connectors(matrix: Matrix, right: str | None) -> None:
    """CON-34: connectors are read and changed with the rights to the server; the server of the tests knows none."""
    matrix.grant(right)
    with closing(matrix.listeners["http"](matrix.token)) as http:
        read = {http.status_of(request) for request in http_requests.CONNECTORS_READ}
        changed = {http.status_of(request) for request in http_requests.CONNECTORS_CHANGED}
    assert read == {404 if right in SERVER else Status.UNAUTHORIZED}
    assert changed == {404 if right in SERVER_MANAGE else Status.UNAUTHORIZED}


def test_rights_on_something_else(matrix: Matrix) -> None:
    """A right on another stream or topic grants nothing here."""
    matrix.grant_elsewhere()
    asked = matrix.ask_everywhere(logged_in=True, only=lambda row: bool(row.granted_by))
    assert asked == matrix.expected(asked, lambda row: row.status_for(None))


def test_behind_tls(encrypted_matrix: Matrix) -> None:
    """TLS does not change decisions: unauthenticated, without rights, and with one right of each kind."""
    anonymous = encrypted_matrix.ask_everywhere(logged_in=False)
    decided = encrypted_matrix.expected(anonymous, lambda row: row.status if row.is_public else Status.UNAUTHENTICATED)
    assert anonymous == decided
    for right in (None, *ONE_OF_EACH_KIND):
        encrypted_matrix.grant(right)
        asked = encrypted_matrix.ask_everywhere(logged_in=True)
        assert asked == encrypted_matrix.expected(asked, lambda row, right=right: row.status_for(right)), right


def test_a_member_who_loses_the_right(matrix: Matrix, shared_server: ServerProcess) -> None:
    """A group joined with a right is refused without it, both over a connection and by membership name."""
    group = frames.ident("doomed") + frames.ident("t") + frames.ident("g")
    who = frames.consumer("g", group=True)
    over_connections = (
        (Code.POLL_MESSAGES, frames.poll("doomed", "t", None, Strategy.NEXT, who=who)),
        (Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("doomed", "t", 0, 0, who=who)),
        (Code.LEAVE_CONSUMER_GROUP, group),
    )
    matrix.grant("read_topics")
    with (
        RawConnection.as_user(shared_server.address, LIMITED, LIMITED) as connection,
        closing(CallerOverHttp(shared_server, matrix.token, {})) as http,
    ):
        connection.ok(Code.JOIN_CONSUMER_GROUP, group)
        assert http.status_of(http_requests.JOIN) == Status.OK
        matrix.grant(None)
        assert [connection.status(code, payload) for code, payload in over_connections] == [Status.UNAUTHORIZED] * 3
        assert {http.status_of(request) for request in http_requests.MEMBERSHIP} == {Status.UNAUTHORIZED}
    with closing(CallerOverHttp(shared_server, None, {})) as http:
        assert {http.status_of(request) for request in http_requests.MEMBERSHIP} == {Status.UNAUTHENTICATED}
