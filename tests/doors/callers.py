"""Callers of each door who ask for a row of the table of commands and say with which status it was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, Self

import grpc

from tests.compatibility import frames
from tests.compatibility.codes import Code, Status
from tests.compatibility.raw import RawConnection
from tests.compatibility.websocket import WebSocketConnection
from tests.doors.commands import Command
from tests.doors.commands_grpc import Call
from tests.doors.grpc_caller import GrpcCaller, status_of
from tests.server_process import ServerProcess

_GRPC_CODES = {
    Status.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Status.UNAUTHORIZED: grpc.StatusCode.PERMISSION_DENIED,
}


class Caller(Protocol):
    """Somebody at a door."""

    def ways(self, command: Command) -> Sequence[Any]:
        """How the door can be asked for a command: nothing if it does not have it."""

    def ask(self, command: Command, way: Any) -> int:
        """The status that a command is answered with."""

    def close(self) -> None:
        """Go away."""


class BinaryCaller:
    """One connection of the binary protocol."""

    def __init__(self, connection: RawConnection, token: str | None) -> None:
        self._connection = connection
        if token is not None:
            connection.ok(Code.LOGIN_WITH_TOKEN, frames.name(token))

    @classmethod
    def over_tcp(cls, server: ServerProcess, token: str | None) -> Self:
        return cls(RawConnection(server.address), token)

    @classmethod
    def over_websocket(cls, server: ServerProcess, token: str | None) -> Self:
        return cls(WebSocketConnection(server.websocket_address), token)

    def ways(self, command: Command) -> Sequence[str]:
        return ("",)

    def ask(self, command: Command, way: str) -> int:
        return self._connection.status(command.code, command.payload)

    def close(self) -> None:
        self._connection.close()


class CallerOverGrpc:
    """A channel; the token goes with every call."""

    def __init__(self, server: ServerProcess, token: str | None, calls: Mapping[str, Sequence[Call]]) -> None:
        self._calls = calls
        self._opened = ExitStack()
        self._caller = self._opened.enter_context(GrpcCaller(server.grpc_address, token))

    def ways(self, command: Command) -> Sequence[Call]:
        return self._calls.get(command.name, ())

    def ask(self, command: Command, way: Call) -> int:
        path, request = way
        service, _, name = path.partition("/")
        method = getattr(getattr(self._caller, service.lower()), name)
        try:
            if isinstance(method, grpc.StreamStreamMultiCallable):
                list(method(iter([request])))
            else:
                method(request)
        except grpc.RpcError as error:
            code, status = status_of(error)
            assert status not in _GRPC_CODES or code == _GRPC_CODES[Status(status)], (path, code, status)
            return status
        return Status.OK

    def close(self) -> None:
        self._opened.close()
