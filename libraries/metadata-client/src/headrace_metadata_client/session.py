"""Client side of a session: a command is applied exactly once, despite failures of replicas and retries.

If a replica dies, is partitioned or loses its role as primary, the outcome of a command in flight is unknown. The
session sends the command again, under the same number, to the other replicas, until one of them reports the outcome.
The outcome stays unknown only if none has reported it before a deadline.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
from grpc import aio

from headrace_metadata_client.errors import (
    CommandNotTakenError,
    MetadataClientError,
    OutcomeUnknownError,
    SessionEndedError,
    UnauthenticatedError,
)
from headrace_metadata_client.replicas import AskAgain, OutOfTime, Replicas
from headrace_proto.metadata.v1 import Command, OpenSessionRequest, ProposeRequest, ProposeResponse, SessionRequest

if TYPE_CHECKING:
    from headrace_proto.metadata.v1.service_pb2_grpc import MetadataAsyncStub

_Response = TypeVar("_Response")

_CLIENT_BYTES: Final = 16


class Session:
    """Commands of one caller, one after the other. Callers that want several in flight use several sessions.

    Attributes:
        repeats: Number of commands that were sent again although they may have been accepted.
    """

    def __init__(
        self,
        stubs: Sequence[MetadataAsyncStub],
        metadata: Sequence[tuple[str, str]] = (),
        *,
        attempt_seconds: float = 1.0,
    ) -> None:
        """Create a session. Nothing is sent before the first command.

        Args:
            stubs: Stubs of all replicas, in the order of the members.
            metadata: Metadata of every call.
            attempt_seconds: Time without an answer after which another replica is asked.
        """
        self._replicas = Replicas(stubs, metadata, attempt_seconds)
        self._client = b""
        self._session = 0
        self._number = 0
        self._lock = asyncio.Lock()
        self.repeats = 0

    async def propose(self, command: Command, *, timeout_seconds: float = 10.0) -> ProposeResponse:
        """Apply a command exactly once.

        Raises:
            CommandNotTakenError: No replica has accepted it in time; it is not applied.
            OutcomeUnknownError: It may or may not be applied: no replica has reported its outcome in time, or one
                refuses to report it.
            SessionEndedError: It may or may not be applied, and the replicas have removed the session. The next
                command opens another one.
            UnauthenticatedError: The replicas refuse the caller's credentials.
            AioRpcError: The replicas refuse the command.
        """
        deadline = time.monotonic() + timeout_seconds
        async with self._lock:
            # The number of a command without an answer is not reused: it may still be applied, but only once.
            self._number += 1
            is_in_doubt = False
            while True:
                try:
                    if self._session == 0:
                        await self._open(deadline)
                    return await self._attempt(command, deadline)
                except AskAgain as again:
                    self.repeats += again.is_in_doubt and not is_in_doubt
                    is_in_doubt |= again.is_in_doubt
                except OutOfTime:
                    if is_in_doubt:
                        raise OutcomeUnknownError("no replica reported the result of the command in time") from None
                    raise CommandNotTakenError("no replica accepted the command in time") from None
                except SessionEndedError:
                    self._session = 0
                    if is_in_doubt:
                        raise
                    # The command was never accepted, so it cannot have been applied: it may be the first of a new
                    # session.
                except (UnauthenticatedError, aio.AioRpcError) as error:
                    # The replica asked before may have accepted what this one refuses.
                    if is_in_doubt:
                        raise OutcomeUnknownError(f"a replica refuses to report the result: {error}") from error
                    raise

    async def close(self) -> None:
        """Close the session on the replicas, if the one asked last can be reached. Otherwise it expires there."""
        async with self._lock:
            if self._session == 0:
                return
            request = self._request(self._number + 1)
            self._session = 0
            deadline = time.monotonic() + self._replicas.attempt_seconds
            try:
                await self._ask(lambda stub, **how: stub.CloseSession(request, **how), deadline)
            except (AskAgain, OutOfTime, MetadataClientError, aio.AioRpcError):
                return

    async def _open(self, deadline: float) -> None:
        while self._session == 0:
            # A new client id, so that an attempt that is applied late cannot end a session in use.
            self._client = secrets.token_bytes(_CLIENT_BYTES)
            try:
                opened = await self._ask(
                    lambda stub, **how: stub.OpenSession(OpenSessionRequest(client=self._client), **how), deadline
                )
            except AskAgain:
                continue
            self._session, self._number = opened.session, 1

    async def _attempt(self, command: Command, deadline: float) -> ProposeResponse:
        request = ProposeRequest(command=command, session=self._request(self._number))
        return await self._ask(lambda stub, **how: stub.Propose(request, **how), deadline)

    async def _ask(self, call: Callable[..., Awaitable[_Response]], deadline: float) -> _Response:
        try:
            return await self._replicas.ask(call, deadline)
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise SessionEndedError(error.details()) from error
            raise

    def _request(self, number: int) -> SessionRequest:
        return SessionRequest(client=self._client, session=self._session, number=number)
