"""The gRPC service of one replica."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc
from grpc import aio

from headrace_chassis.grpc.status import end_call
from headrace_metadata.errors import (
    AppendFailedError,
    InvalidRequestError,
    MetadataError,
    NotPrimaryError,
    OutcomeUnknownError,
    ReplicaBusyError,
    RequestReusedError,
    SessionEndedError,
    StaleRequestError,
)
from headrace_metadata.metrics import Metrics
from headrace_metadata.queries import answer
from headrace_metadata.replica import Replica, RequestId
from headrace_metadata.status import ReplicaFacts, replica_status
from headrace_metadata.update_history import UpdateHistory
from headrace_node.tracing import Tracing
from headrace_proto.cluster_token import PRIMARY_METADATA
from headrace_proto.metadata.v1 import (
    CONSISTENCY_LINEARIZABLE,
    CONSISTENCY_STALE,
    CloseSessionResponse,
    GetSnapshotRequest,
    GetStatusRequest,
    NotTaken,
    OpenSessionRequest,
    OpenSessionResponse,
    ProposeOutcome,
    ProposeRequest,
    ProposeResponse,
    ReadLogRequest,
    ReadLogResponse,
    ReadRequest,
    ReadResponse,
    ReplicaStatus,
    SessionRequest,
    SnapshotChunk,
    WatchRequest,
    WatchResponse,
)
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataServicer
from headrace_proto.trace_context import REQUEST

_UPDATES_PER_TURN: Final = 64
_CLIENT_BYTES: Final = 16
_CHUNK_BYTES: Final = 1024 * 1024

_Context = aio.ServicerContext[Any, Any]
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Method = Callable[[Any, _Request, _Context], Awaitable[_Response]]


def _refusing(method: _Method[_Request, _Response]) -> _Method[_Request, _Response]:
    """Convert exceptions of the replica to a status of the call."""

    @functools.wraps(method)
    async def call(service: Any, request: _Request, context: _Context) -> _Response:
        try:
            return await method(service, request, context)
        except MetadataError as error:
            await _abort(context, error)
            raise

    return call


class MetadataService(MetadataServicer):
    """Answers calls from one replica and what it has applied."""

    def __init__(self, replica: Replica, facts: ReplicaFacts, metrics: Metrics, tracing: Tracing | None = None) -> None:
        self._replica = replica
        self._facts = facts
        self._metrics = metrics
        self._tracing = tracing
        self._history = UpdateHistory(replica.state.version)
        replica.state.subscribe(self._history.append, self._history.restart)

    @_refusing
    async def Propose(self, request: ProposeRequest, _context: _Context) -> ProposeResponse:  # noqa: N802  (gRPC's name)
        """Commit a command."""
        return await self._propose(request)

    async def ProposeStream(  # noqa: N802
        self, requests: AsyncIterator[ProposeRequest], context: _Context
    ) -> AsyncIterator[ProposeOutcome]:
        """Commit commands one after the other."""
        async for request in requests:
            try:
                yield ProposeOutcome(response=await self._propose(request))
            except NotPrimaryError as error:
                yield ProposeOutcome(not_taken=NotTaken(primary=error.primary, reason=str(error)))
            except (ReplicaBusyError, AppendFailedError) as error:
                yield ProposeOutcome(not_taken=NotTaken(reason=str(error)))
            except MetadataError as error:
                await _abort(context, error)

    @_refusing
    async def OpenSession(  # noqa: N802
        self, request: OpenSessionRequest, _context: _Context
    ) -> OpenSessionResponse:
        """Begin a session."""
        return OpenSessionResponse(session=await self._replica.open_session(_client(request.client)))

    @_refusing
    async def CloseSession(  # noqa: N802
        self, request: SessionRequest, _context: _Context
    ) -> CloseSessionResponse:
        """End a session."""
        await self._replica.close_session(_request_id(request))
        return CloseSessionResponse()

    @_refusing
    async def Read(self, request: ReadRequest, context: _Context) -> ReadResponse:  # noqa: N802
        """Answer a query."""
        await self._reach(request.consistency, context)
        response = answer(self._replica.state, request)
        if response is None:
            await end_call(
                context, grpc.StatusCode.INVALID_ARGUMENT, "the request has no query that this release knows"
            )
        return response

    async def Watch(self, request: WatchRequest, _context: _Context) -> AsyncIterator[WatchResponse]:  # noqa: N802
        """Stream the catalog and its updates until the caller cancels."""
        state, history = self._replica.state, self._history
        if request.HasField("after_version"):
            version = request.after_version
        else:
            snapshot = state.catalog()
            version = snapshot.version
            yield WatchResponse(snapshot=snapshot)
        while True:
            updates = history.after(version, count_max=_UPDATES_PER_TURN)
            if updates is None:
                snapshot = state.catalog()
                version = snapshot.version
                yield WatchResponse(snapshot=snapshot)
            elif updates:
                for update in updates:
                    yield WatchResponse(update=update)
                version = updates[-1].version
            else:
                await history.wait_beyond(version)

    async def GetStatus(self, _request: GetStatusRequest, _context: _Context) -> ReplicaStatus:  # noqa: N802
        """Return the status of this replica."""
        return replica_status(self._replica, self._facts)

    async def ReadLog(self, request: ReadLogRequest, _context: _Context) -> ReadLogResponse:  # noqa: N802
        """Return the last commands."""
        return ReadLogResponse(entries=self._replica.state.last_commands(request.count_max))

    async def GetSnapshot(  # noqa: N802
        self, request: GetSnapshotRequest, context: _Context
    ) -> AsyncIterator[SnapshotChunk]:
        """Return the whole state."""
        try:
            await self._reach(request.consistency, context)
        except MetadataError as error:
            await _abort(context, error)
        machine = self._replica.state.fork_machine()
        encoded = await asyncio.to_thread(lambda: machine.snapshot().SerializeToString(deterministic=True))
        for start in range(0, len(encoded), _CHUNK_BYTES):
            yield SnapshotChunk(contents=encoded[start : start + _CHUNK_BYTES])

    async def _propose(self, request: ProposeRequest) -> ProposeResponse:
        started, began_micros = time.perf_counter(), time.time_ns() // 1000
        outcome = "cancelled"
        try:
            if request.HasField("session"):
                reply = await self._replica.request(_request_id(request.session), request.command)
            else:
                reply = await self._replica.propose(request.command)
            outcome = "applied"
        except MetadataError as error:
            outcome = type(error).__name__
            raise
        finally:
            self._metrics.proposed(outcome, time.perf_counter() - started)
            self._trace_commit(request, began_micros, outcome)
        # Read both at one moment: the state at this version contains every change up to this time.
        state = self._replica.state
        return ProposeResponse(reply=reply, version=state.version, timestamp_micros=state.timestamp_micros)

    def _trace_commit(self, request: ProposeRequest, began_micros: int, outcome: str) -> None:
        """Record the span from the proposal until the command was durable on a majority and applied."""
        call = REQUEST.get()
        if self._tracing is None or call is None:
            return
        attributes = {"headrace.command": request.command.WhichOneof("operation") or "unknown"}
        failure = "" if outcome == "applied" else outcome
        ended_micros = time.time_ns() // 1000
        self._tracing.past("commit", call.context, began_micros, ended_micros, attributes, failure=failure)

    async def _reach(self, consistency: int, context: _Context) -> None:
        if consistency == CONSISTENCY_LINEARIZABLE:
            await self._replica.synchronise()
        elif consistency != CONSISTENCY_STALE:
            await end_call(
                context, grpc.StatusCode.INVALID_ARGUMENT, "this release does not know the consistency level"
            )


def _client(encoded: bytes) -> int:
    client = int.from_bytes(encoded, "big")
    if len(encoded) != _CLIENT_BYTES or client == 0:
        raise InvalidRequestError(f"a client is {_CLIENT_BYTES} bytes that are not all 0")
    return client


def _request_id(request: SessionRequest) -> RequestId:
    if request.session == 0 or request.number == 0:
        raise InvalidRequestError("sessions, and requests in them, are numbered from 1")
    return RequestId(_client(request.client), request.session, request.number)


async def _abort(context: _Context, error: MetadataError) -> None:
    match error:
        case NotPrimaryError(primary=int(primary)):
            await end_call(
                context, grpc.StatusCode.FAILED_PRECONDITION, str(error), ((PRIMARY_METADATA, str(primary)),)
            )
        case NotPrimaryError():
            await end_call(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
        case ReplicaBusyError() | AppendFailedError():
            await end_call(context, grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        case OutcomeUnknownError():
            await end_call(context, grpc.StatusCode.ABORTED, str(error))
        case SessionEndedError():
            await end_call(context, grpc.StatusCode.NOT_FOUND, str(error))
        case StaleRequestError():
            await end_call(context, grpc.StatusCode.OUT_OF_RANGE, str(error))
        case RequestReusedError():
            await end_call(context, grpc.StatusCode.ALREADY_EXISTS, str(error))
        case InvalidRequestError():
            await end_call(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        case _:
            await end_call(context, grpc.StatusCode.INTERNAL, str(error))
