"""Clients of each API that send a row of the command table and return the status of the response."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, Self

import grpc
from websockets.sync.client import ClientConnection, connect

from headrace_proto.gateway import v1
from tests.apis.commands.grpc_requests import Call
from tests.apis.commands.http_requests import MEMBER, Request
from tests.apis.commands.push_requests import Message
from tests.apis.commands.table import Command
from tests.apis.grpc.caller import GrpcCaller, status_of
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.compatibility.protocol.websocket import WebSocketConnection
from tests.encryption.certificates import unverified
from tests.encryption.connection import TlsConnection
from tests.encryption.quic_caller import calling
from tests.server_process import ServerProcess

_GRPC_CODES = {
    Status.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Status.UNAUTHORIZED: grpc.StatusCode.PERMISSION_DENIED,
}
_HTTP_STATUSES = {
    Status.UNAUTHENTICATED: http.HTTPStatus.UNAUTHORIZED,
    Status.UNAUTHORIZED: http.HTTPStatus.FORBIDDEN,
}


class Caller(Protocol):
    """A client of one API."""

    def ways(self, command: Command) -> Sequence[Any]:
        """Requests that the API offers for a command; empty if it has none."""

    def ask(self, command: Command, way: Any) -> int:
        """Send a command and return the status of the response."""

    def close(self) -> None:
        """Close the connection."""


class BinaryCaller:
    """A client of the binary protocol with one connection."""

    def __init__(self, connection: RawConnection, token: str | None) -> None:
        self._connection = connection
        if token is not None:
            connection.ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name(token))

    @classmethod
    def over_tcp(cls, server: ServerProcess, token: str | None) -> Self:
        return cls(RawConnection(server.address), token)

    @classmethod
    def over_websocket(cls, server: ServerProcess, token: str | None) -> Self:
        return cls(WebSocketConnection(server.websocket_address), token)

    @classmethod
    def over_tls(cls, server: ServerProcess, token: str | None) -> Self:
        return cls(TlsConnection(server.address, unverified()), token)

    def ways(self, command: Command) -> Sequence[str]:
        return ("",)

    def ask(self, command: Command, way: str) -> int:
        return self._connection.status(command.code, command.payload)

    def close(self) -> None:
        self._connection.close()


class CallerOverQuic:
    """A client over QUIC with one connection; each command has its own stream."""

    def __init__(self, server: ServerProcess, token: str | None) -> None:
        # The QUIC client needs an event loop, which runs only during a request.
        self._runner = asyncio.Runner()
        self._opened = calling(server.quic_address)
        self._caller = self._runner.run(self._opened.__aenter__())
        if token is not None:
            self._runner.run(self._caller.ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name(token)))

    def ways(self, command: Command) -> Sequence[str]:
        # Notifications belong to no stream, so the command is refused before any right is considered.
        return () if command.code == Code.WATCH_PARTITIONS else ("",)

    def ask(self, command: Command, way: str) -> int:
        return self._runner.run(self._caller.request(command.code, command.payload)).status

    def close(self) -> None:
        try:
            self._runner.run(self._opened.__aexit__(None, None, None))
        finally:
            self._runner.close()


class CallerOverGrpc:
    """A client over one gRPC channel; every call carries the access token, or the token of a login with the access
    token.
    """

    def __init__(
        self,
        server: ServerProcess,
        token: str | None,
        calls: Mapping[str, Sequence[Call]],
        *,
        logs_in: bool = True,
    ) -> None:
        # An access token is not a login, so no logout can end it.
        self._calls = {name: ways for name, ways in calls.items() if logs_in or name != "LOGOUT_USER"}
        self._opened = ExitStack()
        if token is not None and logs_in:
            with GrpcCaller(server.grpc_address, None) as anonymous:
                token = anonymous.login.LoginWithAccessToken(v1.LoginWithAccessTokenRequest(token=token)).token
        self._caller = self._opened.enter_context(GrpcCaller(server.grpc_address, token))

    def ways(self, command: Command) -> Sequence[Call]:
        return self._calls.get(command.name, ())

    def ask(self, command: Command, way: Call) -> int:
        path, request = way
        service, _, name = path.partition("/")
        method = getattr(getattr(self._caller, service.lower()), name)
        try:
            if isinstance(method, grpc.StreamStreamMultiCallable):
                list(method(iter(request if isinstance(request, tuple) else (request,))))
            elif isinstance(method, grpc.UnaryStreamMultiCallable):
                # The stream is endless; its first response suffices.
                answers = method(request)
                next(answers)
                answers.cancel()
            else:
                method(request)
        except grpc.RpcError as error:
            code, status = status_of(error)
            assert status not in _GRPC_CODES or code == _GRPC_CODES[Status(status)], (path, code, status)
            return status
        return Status.OK

    def close(self) -> None:
        self._opened.close()


class CallerOverHttp:
    """A client over one HTTP connection; every request carries the token of a login."""

    def __init__(self, server: ServerProcess, token: str | None, requests: Mapping[str, Sequence[Request]]) -> None:
        self._requests = requests
        self._connection = http.client.HTTPConnection(server.http_address, timeout=20)
        self._headers = {"Content-Type": "application/json"}
        self._member = "none"
        if token is not None:
            status, identity = self._send(Request("POST", "/personal-access-tokens/login", {"token": token}))
            assert status == http.HTTPStatus.OK, identity
            self._headers["Authorization"] = f"Bearer {identity['access_token']['token']}"

    def ways(self, command: Command) -> Sequence[Request]:
        return self._requests.get(command.name, ())

    def ask(self, command: Command, way: Request) -> int:
        return self.status_of(way)

    def status_of(self, request: Request) -> int:
        """Return the status number of the response to a request."""
        http_status, answer = self._send(request)
        if http_status < http.HTTPStatus.BAD_REQUEST:
            if isinstance(answer, dict):
                self._member = answer.get("member", self._member)
            return Status.OK
        status = int(answer["id"])
        assert status not in _HTTP_STATUSES or http_status == _HTTP_STATUSES[Status(status)], (request, answer)
        return status

    def close(self) -> None:
        self._connection.close()

    def _send(self, request: Request) -> tuple[int, Any]:
        body = None if request.body is None else json.dumps(request.body)
        path = request.path.replace(MEMBER, self._member)
        self._connection.request(request.method, path, body, self._headers)
        response = self._connection.getresponse()
        media_type = response.headers.get_content_type()
        if media_type == "text/event-stream":
            # The response is endless; its status suffices.
            self._connection.close()
            return response.status, None
        content = response.read()
        return response.status, json.loads(content) if content and media_type.endswith("json") else None


class CallerOverPush:
    """A WebSocket client of the HTTP listener. The server closes an unauthenticated connection after each request, and
    the client reconnects.
    """

    def __init__(self, server: ServerProcess, token: str | None, messages: Mapping[str, Sequence[Message]]) -> None:
        self._url = f"ws://{server.http_address}/ws"
        self._messages = messages
        self._token = token
        self._opened = ExitStack()
        self._socket: ClientConnection | None = None

    def ways(self, command: Command) -> Sequence[Message]:
        return self._messages.get(command.name, ())

    def ask(self, command: Command, way: Message) -> int:
        if self._socket is None:
            self._socket = self._opened.enter_context(connect(self._url))
            if self._token is not None:
                assert self._answer(Message("login", {"token": self._token})) == Status.OK
        status = self._answer(way.first) if way.first is not None else Status.OK
        if status == Status.OK:
            status = self._answer(way)
        if self._token is None:
            self.close()
        else:
            assert self._answer(Message("unsubscribe", {"subscription": 1})) == Status.OK
        return status

    def close(self) -> None:
        self._opened.close()
        self._socket = None

    def _answer(self, message: Message) -> int:
        assert self._socket is not None
        self._socket.send(json.dumps({"type": message.type, "id": 1, **message.fields}))
        answer = json.loads(self._socket.recv(timeout=20))
        while answer["type"] == "heartbeat":
            # Skip keep-alive messages.
            answer = json.loads(self._socket.recv(timeout=20))
        assert answer["id"] == 1, answer
        return int(answer.get("code", Status.OK))
