"""From methods of plain Python to a gRPC service: who calls, in whose name it is done, and how it is refused."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from grpc import aio

import headrace_core
from headrace_gateway.refusals import Kind, kind_of
from headrace_gateway.sessions import SessionLost, Sessions
from headrace_proto.errors import Status, find

STATUS_METADATA: Final = "headrace-status"
"""The trailing metadata with the number of a status."""
STATUS_NAME_METADATA: Final = "headrace-status-name"
"""The trailing metadata with its name."""

_CODES: Final = {
    Kind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Kind.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Kind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Kind.EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Kind.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.FAILED: grpc.StatusCode.INTERNAL,
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
}
_BEARER: Final = "bearer "

_Context = aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Metadata = Iterable[tuple[str, str | bytes]]
_log = logging.getLogger(__name__)


class Refused(Exception):
    """A call that ends with a status."""

    def __init__(self, status: int, reason: str | None = None) -> None:
        """Describe the refusal.

        Args:
            status: A code of ``proto/errors.toml``.
            reason: For people; without one, what the status means.
        """
        info = find(status)
        super().__init__(reason or (info.description if info else f"status {status}"))
        self.status = status


class Bearers(Protocol):
    """Knows who a token belongs to."""

    def user_of(self, token: str) -> int:
        """Return the id of the user.

        Raises:
            Refused: It is nobody's, or not any more.
        """


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls."""

    user_id: int
    sessions: Sessions

    async def execute(self, command: tuple[int, bytes]) -> bytes:
        """Execute a command in the name of the caller; returns the payload of the answer.

        Raises:
            Refused: It was answered with a status other than success.
            SessionLost: It was not answered.
        """
        status, payload = await self.sessions.call(self.user_id, *command)
        if status != Status.OK:
            raise Refused(status)
        return payload

    async def find(self, command: tuple[int, bytes]) -> bytes:
        """As ``execute`` for a query whose answer is empty when there is nothing.

        Raises:
            Refused: Also when there is nothing.
        """
        payload = await self.execute(command)
        if not payload:
            raise Refused(Status.RESOURCE_NOT_FOUND, "there is no such thing")
        return payload


class Calls:
    """What every call goes through."""

    def __init__(self, sessions: Sessions, bearers: Bearers) -> None:
        self._sessions = sessions
        self._bearers = bearers

    def handler_of(self, service: ServiceDescriptor, methods: object) -> grpc.GenericRpcHandler:
        """Serve a service.

        Args:
            service: Its description.
            methods: An object with a method for each of the service, named in snake case. It takes the request, or an
                iterator of requests, and a ``Caller``, and returns the response or yields responses.
        """
        handlers = {}
        for method in service.methods:
            implementation = getattr(methods, re.sub(r"(?<=.)(?=[A-Z])", "_", method.name).lower())
            handlers[method.name] = self._handler(method, implementation)
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _handler(self, method: MethodDescriptor, implementation: Callable[..., Any]) -> _Handler:
        request = message_factory.GetMessageClass(method.input_type)
        if not inspect.isasyncgenfunction(implementation):
            return grpc.unary_unary_rpc_method_handler(self._unary(request, implementation))
        return grpc.stream_stream_rpc_method_handler(self._streaming(request, implementation))

    def _unary(
        self, request: type[Message], implementation: Callable[[Any, Caller], Awaitable[Message]]
    ) -> Callable[[bytes, _Context], Awaitable[bytes]]:
        async def serve(encoded: bytes, context: _Context) -> bytes:
            try:
                caller = self._caller(context.invocation_metadata())
                response = await implementation(_decoded(request, encoded), caller)
                return response.SerializeToString()
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
                return await _refuse(context, error)

        return serve

    def _streaming(
        self, request: type[Message], implementation: Callable[[AsyncIterator[Any], Caller], AsyncIterator[Message]]
    ) -> Callable[[AsyncIterator[bytes], _Context], AsyncIterator[bytes]]:
        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> AsyncIterator[bytes]:
            try:
                caller = self._caller(context.invocation_metadata())
                requests = (_decoded(request, one) async for one in encoded)
                async for response in implementation(requests, caller):
                    yield response.SerializeToString()
            except Exception as error:  # noqa: BLE001 - see above
                await _refuse(context, error)

        return serve

    def admit(self, metadata: _Metadata | None) -> None:
        """Check who calls before anything of the request is received.

        Raises:
            Refused: He is nobody.
        """
        self._caller(metadata)

    def _caller(self, metadata: _Metadata | None) -> Caller:
        presented = [str(value) for name, value in metadata or () if name == "authorization"]
        if len(presented) != 1 or not presented[0].lower().startswith(_BEARER):
            raise Refused(Status.UNAUTHENTICATED, "the call carries no `authorization: Bearer <token>`")
        return Caller(self._bearers.user_of(presented[0][len(_BEARER) :].strip()), self._sessions)


class Admission(aio.ServerInterceptor):
    """Refuses strangers by their metadata alone: a request of theirs, however large, is never received."""

    def __init__(self, calls: Calls, services: Iterable[str]) -> None:
        """Stand in front of these services; whatever else is served is for everybody."""
        self._calls = calls
        self._prefixes = tuple(f"/{service}/" for service in services)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """Let the call pass, or have it answered with a refusal."""
        if handler_call_details.method.startswith(self._prefixes):
            try:
                self._calls.admit(handler_call_details.invocation_metadata)
            except Refused as refused:
                return _refusing(refused)
        return await continuation(handler_call_details)


def _refusing(refused: Refused) -> _Handler:
    async def serve(_requests: AsyncIterator[bytes], context: _Context) -> AsyncIterator[bytes]:
        await _refuse(context, refused)
        yield b""

    # Whatever the method is: only this kind of handler is called before a request is there.
    return grpc.stream_stream_rpc_method_handler(serve)


def _decoded(request: type[Message], encoded: bytes) -> Message:
    # Here and not by the library, which would know neither the caller nor our way to refuse.
    try:
        return request.FromString(encoded)
    except DecodeError as error:
        raise Refused(Status.INVALID_FORMAT, f"the request is no {request.DESCRIPTOR.full_name}") from error


async def _refuse(context: _Context, error: Exception) -> NoReturn:
    match error:
        case aio.AbortError():
            raise error
        case Refused():
            status, reason = error.status, str(error)
        case headrace_core.CodecError():
            status = error.code
            reason = f"{error.field}: {error}" if error.field else str(error)
        case SessionLost():
            status, reason = error.code, str(error)
        case _:
            _log.error("a call failed", exc_info=error)
            status, reason = Status.ERROR, "the server has failed; its log says how"
    info = find(status)
    trailer = ((STATUS_METADATA, str(int(status))), (STATUS_NAME_METADATA, info.name if info else "unknown"))
    await context.abort(_CODES[kind_of(status)], reason, trailer)
    raise AssertionError("an aborted call has ended")
