"""From methods of plain Python to a gRPC service: who calls, and in whose name it is done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from grpc import aio

from headrace_gateway.grpc.bearers import Bearers, Identity
from headrace_gateway.grpc.memory import Held, Memory
from headrace_gateway.grpc.refused import refuse
from headrace_gateway.tokens import Bearer
from headrace_proto.errors import Status
from headrace_shards.grpc_refusals import Refused
from headrace_shards.sessions import Sessions

_BEARER: Final = "bearer "
# How many requests of nobody in particular are received at a time; others wait.
_STRANGERS_MAX: Final = 16
# A request has to arrive within this time, and a response to be taken; those of strangers are small.
_REQUEST_SECONDS: Final = 20.0
_STRANGERS_SECONDS: Final = 5.0
# And a second more for each so many bytes of a response.
_BYTES_PER_SECOND: Final = 128 * 1024
# How long a call waits for memory that others hold.
_PATIENCE_SECONDS: Final = 5.0
SMALL_BYTES: Final = 128 * 1024
"""What is larger is counted, and converted beside the event loop, where others go on meanwhile."""

_Context = aio.ServicerContext[Any, Any]
_Serve: TypeAlias = Callable[[AsyncIterator[bytes], _Context], Awaitable[None]]
_Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls."""

    user_id: int
    sessions: Sessions
    bearer: Bearer | None
    """The token of a login; None where an access token or a certificate was shown."""
    verify: Callable[[], object]
    """Looks again whether the token is good, in a call that takes long; raises ``Refused`` if it is not any more."""
    held: Held
    """What the call holds of the memory for calls; given back at its end."""

    async def execute(self, command: tuple[int, bytes]) -> bytes:
        """Execute a command in the name of the caller; returns the payload of the answer.

        Raises:
            Refused: It was answered with a status other than success.
            SessionLost: It was not answered.
        """
        status, payload = await self.sessions.call(self.user_id, *command)
        if status != Status.OK:
            raise Refused(status)
        if len(payload) > SMALL_BYTES:
            # Until the caller has received what is made of it, which may be late.
            await self.held.grow(len(payload), patience_seconds=_PATIENCE_SECONDS)
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
    """What every call goes through.

    All are served as streams, those of one request as well: only so nothing of a request is received before it is known
    whose it is. Else strangers could have the server hold large ones.
    """

    def __init__(self, sessions: Sessions, bearers: Bearers, memory: Memory, *, request_bytes_max: int) -> None:
        """Describe what calls go through.

        Args:
            sessions: Where commands are executed.
            bearers: Knows whose calls they are.
            memory: What calls may hold.
            request_bytes_max: How large one request is at most, which the library sees to.
        """
        self._sessions = sessions
        self._bearers = bearers
        self._memory = memory
        self._request_bytes_max = request_bytes_max
        self._strangers = asyncio.Semaphore(_STRANGERS_MAX)

    def handler_of(
        self, service: ServiceDescriptor, methods: object, public: Collection[str] = ()
    ) -> grpc.GenericRpcHandler:
        """Serve a service.

        Args:
            service: Its description.
            methods: An object with a method for each of the service, named in snake case. It takes the request, or an
                iterator of requests, and a ``Caller``, and returns the response, or is a generator of responses.
            public: Names of methods that need no token; they take the address of the caller instead.
        """
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in service.methods:
            implementation = getattr(methods, re.sub(r"(?<=.)(?=[A-Z])", "_", method.name).lower())
            serve = self._for_strangers if method.name in public else self._for_users
            handlers[method.name] = grpc.stream_stream_rpc_method_handler(serve(method, implementation))
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _for_users(self, method: MethodDescriptor, implementation: Callable[..., Any]) -> _Serve:
        request = message_factory.GetMessageClass(method.input_type)

        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> None:
            try:
                caller = await self._caller(context)
                async with caller.held:
                    if method.client_streaming:
                        async with aclosing(self._each(request, encoded, caller)) as requests:
                            await _write_all(implementation(requests, caller), context)
                        return
                    await caller.held.grow(self._request_bytes_max, patience_seconds=_PATIENCE_SECONDS)
                    one = await _next(encoded, _REQUEST_SECONDS)
                    if one is None:
                        raise Refused(Status.INVALID_FORMAT, "the call carries no request")
                    caller.held.shrink(len(one))
                    understood = await _decoded(request, one)
                    del one
                    if method.server_streaming:
                        caller.held.shrink(0)
                        await _write_all(implementation(understood, caller), context)
                    else:
                        response = await implementation(understood, caller)
                        await _write_in_time(response, context)
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
                await refuse(context, error)

        return serve

    def _for_strangers(
        self, method: MethodDescriptor, implementation: Callable[[Any, str], Awaitable[Message]]
    ) -> _Serve:
        request = message_factory.GetMessageClass(method.input_type)

        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> None:
            try:
                understood = await _decoded(request, await anext(self.of_strangers(encoded)))
                response = await implementation(understood, address_of(context.peer()))
                await _write_in_time(response, context)
            except Exception as error:  # noqa: BLE001 - see above
                await refuse(context, error)

        return serve

    async def of_strangers(self, encoded: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The requests of nobody in particular: received by a few at a time, each in little time.

        Raises:
            Refused: One did not come in time, or there is none at all.
        """
        count = 0
        while True:
            async with self._strangers:
                one = await _next(encoded, _STRANGERS_SECONDS)
            if one is None and count == 0:
                raise Refused(Status.INVALID_FORMAT, "the call carries no request")
            if one is None:
                return
            count += 1
            yield one

    async def _each(
        self, request: type[Message], encoded: AsyncIterator[bytes], caller: Caller
    ) -> AsyncGenerator[Message, None]:
        async with self._memory.requests_of_streams.held_by(caller.user_id) as held:
            patience_seconds: float | None = _PATIENCE_SECONDS
            while True:
                # What was given away before is the node's by now.
                held.shrink(0)
                # Once it has begun, it waits for its turn as for a slow connection.
                await held.grow(self._request_bytes_max, patience_seconds=patience_seconds)
                patience_seconds = None
                one = await anext(encoded, None)
                if one is None:
                    return
                held.shrink(len(one))
                # A stream may last longer than its token.
                caller.verify()
                yield await _decoded(request, one)

    async def _caller(self, context: _Context) -> Caller:
        metadata: _Metadata = context.invocation_metadata() or ()
        presented = [str(value) for name, value in metadata if name == "authorization"]
        names = () if presented else names_of(context.auth_context())
        if names:
            return self._caller_of(self._bearers.holder(names), partial(self._bearers.holder, names))
        if len(presented) != 1 or not presented[0].lower().startswith(_BEARER):
            raise Refused(Status.UNAUTHENTICATED, "the call carries no `authorization: Bearer <token>`")
        identity = await self._bearers.identify(presented[0][len(_BEARER) :].strip())
        return self._caller_of(identity, partial(self._bearers.verify, identity))

    def _caller_of(self, identity: Identity, verify: Callable[[], object]) -> Caller:
        held = self._memory.calls.held_by(identity.user_id)
        return Caller(identity.user_id, self._sessions, identity.bearer, verify, held)


def names_of(peer: Mapping[str, Iterable[bytes]]) -> tuple[str, ...]:
    """Return what a certificate that a client has shown calls its holder: the common name, hosts, mailboxes."""
    names = (name for kind in ("x509_common_name", "peer_dns", "peer_email") for name in peer.get(kind, ()))
    return tuple(name.decode(errors="replace") for name in names)


def address_of(peer: str) -> str:
    """Return the ``ip:port`` of a peer as gRPC names it, in the form that the other doors have it in."""
    _, _, address = peer.partition(":")
    return unquote(address)


async def _write_all(responses: AsyncGenerator[Message, None], context: _Context) -> None:
    # Closed here and not some time later by the collector: sessions end with it.
    async with aclosing(responses):
        async for response in responses:
            # As soon as the flow control of the connection lets it through.
            await context.write(response.SerializeToString())


async def _write_in_time(response: Message, context: _Context) -> None:
    encoded = response.SerializeToString()
    try:
        async with asyncio.timeout(_REQUEST_SECONDS + len(encoded) / _BYTES_PER_SECOND):
            await context.write(encoded)
    except TimeoutError:
        raise Refused(Status.DISCONNECTED, "the response was not received in time") from None


async def _next(encoded: AsyncIterator[bytes], seconds: float) -> bytes | None:
    try:
        async with asyncio.timeout(seconds):
            return await anext(encoded, None)
    except TimeoutError:
        raise Refused(Status.INVALID_FORMAT, f"no request has arrived within {seconds:g} s") from None


async def _decoded(request: type[Message], encoded: bytes) -> Message:
    # Here and not by the library, which would know neither the caller nor our way to refuse.
    try:
        if len(encoded) <= SMALL_BYTES:
            return request.FromString(encoded)
        return await asyncio.to_thread(request.FromString, encoded)
    except DecodeError as error:
        raise Refused(Status.INVALID_FORMAT, f"the request is no {request.DESCRIPTOR.full_name}") from error
