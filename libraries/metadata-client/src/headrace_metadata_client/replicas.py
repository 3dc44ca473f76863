"""Selection of the replica that is asked next."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
from grpc import aio

from headrace_metadata_client.errors import UnauthenticatedError
from headrace_proto.cluster_token import PRIMARY_METADATA
from headrace_proto.trace_context import traceparent

if TYPE_CHECKING:
    from headrace_proto.metadata.v1.service_pb2_grpc import MetadataAsyncStub

_Response = TypeVar("_Response")

CREDENTIALS_REFUSED: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
"""Status codes with which a replica refuses a caller's credentials."""

_NOT_TAKEN: Final = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED)
_IN_DOUBT: Final = (
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
)
_PAUSE_SECONDS_MAX: Final = 0.02


class AskAgain(Exception):
    """A replica gave no reliable answer; retry."""

    def __init__(self, *, is_in_doubt: bool, reason: str) -> None:
        super().__init__(reason)
        self.is_in_doubt = is_in_doubt


class OutOfTime(Exception):
    """The deadline has expired."""


class Replicas:
    """Asks one replica, usually the primary, and fails over to another if that gives no answer."""

    def __init__(
        self, stubs: Sequence[MetadataAsyncStub], metadata: Sequence[tuple[str, str]], attempt_seconds: float
    ) -> None:
        """Create a selector. Nothing is sent before the first call.

        Args:
            stubs: Stubs of all replicas, in the order of the members.
            metadata: Metadata of every call.
            attempt_seconds: Time without an answer after which another replica is asked.
        """
        self._stubs = stubs
        self._metadata = tuple(metadata)
        self._target = random.randrange(len(stubs))  # noqa: S311  (any of them will do)
        self._was_sent_here = False
        self.attempt_seconds = attempt_seconds

    async def ask(self, call: Callable[..., Awaitable[_Response]], deadline: float) -> _Response:
        """Make one attempt.

        Args:
            call: Called with a stub and the keyword arguments of a call.
            deadline: Deadline by `time.monotonic`.

        Raises:
            AskAgain: No answer; the next attempt uses another replica.
            OutOfTime: The deadline has expired.
            UnauthenticatedError: The replica refuses the caller's credentials.
            AioRpcError: The replica refuses the request.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        timeout = min(left, self.attempt_seconds)
        target = self._target
        try:
            response = await call(self._stubs[target], metadata=self._carried(), timeout=timeout)
        except aio.AioRpcError as error:
            if error.code() in CREDENTIALS_REFUSED:
                raise UnauthenticatedError(error.details()) from error
            if error.code() not in _NOT_TAKEN and error.code() not in _IN_DOUBT:
                raise
            await self._turn_from(target, error)
            raise AskAgain(is_in_doubt=error.code() in _IN_DOUBT, reason=error.details() or "") from error
        self._was_sent_here = False
        return response

    def _carried(self) -> tuple[tuple[str, str], ...]:
        context = traceparent()
        return self._metadata if context is None else (*self._metadata, ("traceparent", context))

    async def _turn_from(self, target: int, error: aio.AioRpcError) -> None:
        if target != self._target:
            # A concurrent call has already switched.
            return
        named = dict(error.trailing_metadata() or ()).get(PRIMARY_METADATA)
        primary = int(named) if isinstance(named, str) else target
        is_sent_on = primary != target and 0 <= primary < len(self._stubs)
        self._target = primary if is_sent_on else (target + 1) % len(self._stubs)
        if is_sent_on and not self._was_sent_here:
            self._was_sent_here = True
            return
        # Back off if two replicas name each other as primary during a hand-over.
        self._was_sent_here = False
        await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS_MAX))  # noqa: S311  (so that callers do not march)
