"""Adapter from plain Python methods to a gRPC service: authentication, memory limits and errors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from grpc import aio

from headrace_chassis.grpc.memory import Held
from headrace_chassis.grpc.places import Places
from headrace_chassis.grpc.server import starts_of_calls
from headrace_chassis.grpc.status import Refused
from headrace_chassis.grpc.unauthenticated import UnauthenticatedCalls
from headrace_chassis.places import address_of, place_of
from headrace_chassis.shares import Shares
from headrace_chassis.starts import Starts
from headrace_gateway.access.proxies import HEADER, Proxies
from headrace_gateway.access.tokens import Bearer
from headrace_gateway.grpc.authentication import Bearers, Identity
from headrace_gateway.grpc.errors import refuse
from headrace_gateway.grpc.memory import Memory
from headrace_node.connections.caller import CALLER
from headrace_node.connections.caller import Caller as Peer
from headrace_node.connections.sessions import Sessions
from headrace_proto.errors import Status

_BEARER: Final = "bearer "
# Timeout for the arrival of a request and for the delivery of a response.
_REQUEST_SECONDS: Final = 20.0
# Response timeouts are extended by one second per this number of bytes.
_BYTES_PER_SECOND: Final = 128 * 1024
# Timeout for a call that waits for memory held by other calls.
_TIMEOUT_SECONDS: Final = 5.0
# Interval at which long-lived calls check that the credential is still valid.
_LOOK_SECONDS: Final = 0.5
SMALL_BYTES: Final = 128 * 1024
"""Size above which a payload is accounted and converted off the event loop."""

_Context = aio.ServicerContext[Any, Any]
_Serve: TypeAlias = Callable[[AsyncIterator[bytes], _Context], Awaitable[None]]
_Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller of a call."""

    user_id: int
    sessions: Sessions
    bearer: Bearer | None
    """Login token; None if an access token or a certificate was presented."""
    verify: Callable[[], object]
    """Checks the credential again in a long call; raises ``Refused`` if it is no longer valid."""
    held: Held
    """Memory that the call holds; released at its end."""

    async def execute(self, command: tuple[int, bytes]) -> bytes:
        """Execute a command on behalf of the caller; return the payload of the answer.

        Raises:
            Refused: The answer has a status other than success.
            SessionLost: The session ended without an answer.
        """
        response = await self.sessions.call(self.user_id, *command)
        if response.status != Status.OK:
            raise Refused(response.status, response.explanation)
        payload = response.payload
        if len(payload) > SMALL_BYTES:
            # Held until the caller has received the response, which may take long.
            await self.held.grow(len(payload), timeout_seconds=_TIMEOUT_SECONDS)
        return payload

    async def find(self, command: tuple[int, bytes]) -> bytes:
        """Execute a query whose answer is empty if the object does not exist.

        Raises:
            Refused: The answer has a status other than success, or is empty.
        """
        payload = await self.execute(command)
        if not payload:
            raise Refused(Status.RESOURCE_NOT_FOUND, "the resource does not exist")
        return payload


class Calls:
    """Common path of all calls.

    All calls, including unary ones, are served as streams: only this way the caller is authenticated before any of the
    request is received. Otherwise unauthenticated clients could make the server buffer large requests.
    """

    def __init__(
        self,
        sessions: Sessions,
        bearers: Bearers,
        memory: Memory,
        unauthenticated: UnauthenticatedCalls,
        places: Places,
        proxies: Proxies,
        *,
        request_bytes_max: int,
        count_max: int,
    ) -> None:
        """Configure the common path.

        Args:
            sessions: Sessions that execute commands.
            bearers: Authenticates calls.
            memory: Memory budget of calls.
            unauthenticated: Serves calls without a token, within limits.
            places: Places of connections, which users keep.
            proxies: Trusted proxies, which forward the address of their clients.
            request_bytes_max: Maximum size of one request, enforced by the gRPC library.
            count_max: Maximum number of concurrent calls of users; one user has at most half of them.
        """
        self._sessions = sessions
        self._bearers = bearers
        self._memory = memory
        self._request_bytes_max = request_bytes_max
        self._unauthenticated = unauthenticated
        self._proxies = proxies
        self._connections = places
        self._places = Shares(count_max)
        self.starts = starts_of_calls()
        """Turns in which calls start."""
        # Requests and responses of streams, which the library has accepted already.
        self._steps = Starts()

    def handler_of(
        self, service: ServiceDescriptor, methods: object, public: Collection[str] = ()
    ) -> grpc.GenericRpcHandler:
        """Return the handler of a service.

        Args:
            service: Service descriptor.
            methods: An object with a method for each of the service, named in snake case. It takes the request, or an
                iterator of requests, and a ``Caller``, and returns the response, or is a generator of responses.
            public: Names of methods that need no token; they take the address of the caller instead.
        """
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method in service.methods:
            implementation = getattr(methods, re.sub(r"(?<=.)(?=[A-Z])", "_", method.name).lower())
            serve = self._for_unauthenticated if method.name in public else self._for_users
            handlers[method.name] = grpc.stream_stream_rpc_method_handler(serve(method, implementation))
        return grpc.method_handlers_generic_handler(service.full_name, handlers)

    def _for_users(self, method: MethodDescriptor, implementation: Callable[..., Any]) -> _Serve:
        request = message_factory.GetMessageClass(method.input_type)

        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> None:
            source, peer = self._place_of(context)
            CALLER.set(peer)
            user_id: int | None = None
            try:
                caller = await self._caller(context, source)
                user_id = caller.user_id
                self._connections.has_logged_in(context.peer(), user_id)
                async with caller.held, self._counted(user_id):
                    await self.starts.take(user_id)
                    if method.client_streaming:
                        requests = self._each(request, encoded, caller)
                        async with _looked_after(caller), aclosing(requests):
                            await self._write_all(implementation(requests, caller), caller, context)
                        return
                    await caller.held.grow(self._request_bytes_max, timeout_seconds=_TIMEOUT_SECONDS)
                    one = await _next(encoded, _REQUEST_SECONDS)
                    if one is None:
                        raise Refused(Status.INVALID_FORMAT, "the call carries no request")
                    caller.held.shrink(len(one))
                    understood = await _decoded(request, one)
                    del one
                    if method.server_streaming:
                        caller.held.shrink(0)
                        async with _looked_after(caller):
                            await self._write_all(implementation(understood, caller), caller, context)
                    else:
                        response = await implementation(understood, caller)
                        await _write_in_time(response, context)
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
                if user_id is None:
                    await self.starts.take(place_of(source))
                await self._record_refusal(method, error, user_id)
                await refuse(context, error)

        return serve

    @asynccontextmanager
    async def _counted(self, user_id: int) -> AsyncIterator[None]:
        if not self._places.take(user_id):
            raise Refused(Status.TOO_MANY_WAITS, "too many calls are in progress")
        try:
            yield
        finally:
            self._places.give_back(user_id)

    def _for_unauthenticated(
        self, method: MethodDescriptor, implementation: Callable[[Any, str], Awaitable[Message]]
    ) -> _Serve:
        request = message_factory.GetMessageClass(method.input_type)

        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> None:
            source, peer = self._place_of(context)
            CALLER.set(peer)
            try:
                await self.starts.take(place_of(source))
                understood = await _decoded(request, await anext(self._unauthenticated.requests(encoded)))
                response = await implementation(understood, source)
                await self._unauthenticated.write(response.SerializeToString(), context)
            except Exception as error:  # noqa: BLE001 - see above
                await refuse(context, error)

        return serve

    async def _record_refusal(self, method: MethodDescriptor, error: Exception, user_id: int | None) -> None:
        audit = self._bearers.audit
        if audit is not None and isinstance(error, Refused) and error.status == Status.UNAUTHORIZED:
            await audit.refused(f"{method.containing_service.name}/{method.name}", error.status, user_id=user_id)

    async def _each(
        self, request: type[Message], encoded: AsyncIterator[bytes], caller: Caller
    ) -> AsyncGenerator[Message, None]:
        async with self._memory.requests_of_streams.held_by(caller.user_id) as held:
            timeout_seconds: float | None = _TIMEOUT_SECONDS
            while True:
                # Ownership of the earlier requests has passed to the node.
                held.shrink(0)
                # A stream that has begun waits for memory like for a slow connection.
                await held.grow(self._request_bytes_max, timeout_seconds=timeout_seconds)
                timeout_seconds = None
                one = await anext(encoded, None)
                if one is None:
                    return
                held.shrink(len(one))
                await self._steps.take(caller.user_id)
                # A stream may outlast its token.
                caller.verify()
                yield await _decoded(request, one)

    async def _write_all(self, responses: AsyncGenerator[Message, None], caller: Caller, context: _Context) -> None:
        # Close explicitly instead of waiting for the garbage collector: this ends sessions.
        async with aclosing(responses):
            async for response in responses:
                await self._steps.take(caller.user_id)
                # Returns as soon as the flow control of the connection permits.
                await context.write(response.SerializeToString())

    async def _caller(self, context: _Context, source: str) -> Caller:
        metadata: _Metadata = context.invocation_metadata() or ()
        presented = [str(value) for name, value in metadata if name == "authorization"]
        names = () if presented else names_of(context.auth_context())
        if names:
            return self._caller_of(self._bearers.holder(names), partial(self._bearers.holder, names))
        if len(presented) != 1 or not presented[0].lower().startswith(_BEARER):
            raise Refused(Status.UNAUTHENTICATED, "the call carries no `authorization: Bearer <token>`")
        identity = await self._bearers.identify(presented[0][len(_BEARER) :].strip(), source)
        return self._caller_of(identity, partial(self._bearers.verify, identity))

    def _place_of(self, context: _Context) -> tuple[str, Peer]:
        """Return the address of the caller without port, and the peer as the audit trail records it."""
        metadata: _Metadata = context.invocation_metadata() or ()
        forwarded = [str(value) for name, value in metadata if name == HEADER.lower()]
        host, port = address_of(context.peer())
        source = self._proxies.source_of_call(host, forwarded)
        return source, Peer.at(source, port if source == host else 0, "grpc")

    def _caller_of(self, identity: Identity, verify: Callable[[], object]) -> Caller:
        held = self._memory.calls.held_by(identity.user_id)
        return Caller(identity.user_id, self._sessions, identity.bearer, verify, held)


@asynccontextmanager
async def _looked_after(caller: Caller) -> AsyncIterator[None]:
    """Guard a long-lived call: end it soon after the credential of the caller becomes invalid, even during a wait.

    Raises:
        Refused: The credential is no longer valid.
    """
    call, refused = asyncio.current_task(), []

    async def look() -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                caller.verify()
            except Refused as error:
                refused.append(error)
                if call is not None:
                    call.cancel()
                return

    looking = asyncio.create_task(look(), name="grpc-caller")
    try:
        yield
    except asyncio.CancelledError:
        if not refused or call is None or call.uncancel() > 0:
            raise
        raise refused[0] from None
    finally:
        looking.cancel()


def names_of(peer: Mapping[str, Iterable[bytes]]) -> tuple[str, ...]:
    """Return the names in a client certificate: common name, hosts, mailboxes."""
    names = (name for kind in ("x509_common_name", "peer_dns", "peer_email") for name in peer.get(kind, ()))
    return tuple(name.decode(errors="replace") for name in names)


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
    # Decoded here because the library would neither know the caller nor refuse in our format.
    try:
        if len(encoded) <= SMALL_BYTES:
            return request.FromString(encoded)
        return await asyncio.to_thread(request.FromString, encoded)
    except DecodeError as error:
        raise Refused(Status.INVALID_FORMAT, f"the request is not a {request.DESCRIPTOR.full_name}") from error
