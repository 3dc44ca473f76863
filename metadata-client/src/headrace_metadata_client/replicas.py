"""All replicas, and which of them is asked next."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
from grpc import aio

from headrace_metadata_client.errors import StrangerError
from headrace_proto.cluster_token import PRIMARY_METADATA
from headrace_proto.trace_context import traceparent

if TYPE_CHECKING:
    from headrace_proto.metadata.v1.service_pb2_grpc import MetadataAsyncStub

_Response = TypeVar("_Response")

STRANGER: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
"""How a replica ends the calls of somebody whom it does not know."""

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
    """A replica gave no answer that can be relied on."""

    def __init__(self, *, is_in_doubt: bool, reason: str) -> None:
        super().__init__(reason)
        self.is_in_doubt = is_in_doubt


class OutOfTime(Exception):
    """There is no time left to ask anybody."""


class Replicas:
    """Asks one replica, mostly the primary, and turns to another when that gives no answer."""

    def __init__(
        self, stubs: Sequence[MetadataAsyncStub], metadata: Sequence[tuple[str, str]], attempt_seconds: float
    ) -> None:
        """Nothing is sent before the first question.

        Args:
            stubs: Of all replicas, in the order of the members.
            metadata: What every call carries.
            attempt_seconds: After so long without an answer another replica is asked.
        """
        self._stubs = stubs
        self._metadata = tuple(metadata)
        self._target = random.randrange(len(stubs))  # noqa: S311  (any of them will do)
        self._was_sent_here = False
        self.attempt_seconds = attempt_seconds

    async def ask(self, call: Callable[..., Awaitable[_Response]], deadline: float) -> _Response:
        """Ask once.

        Args:
            call: Is given a stub and the keyword arguments of a call.
            deadline: When it is too late, by `time.monotonic`.

        Raises:
            AskAgain: No answer from there; the next one who is asked is another.
            OutOfTime: It is too late.
            StrangerError: The replica does not accept the caller.
            AioRpcError: The replica does not accept what it was asked.
        """
        left = deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime
        timeout = min(left, self.attempt_seconds)
        target = self._target
        try:
            response = await call(self._stubs[target], metadata=self._carried(), timeout=timeout)
        except aio.AioRpcError as error:
            if error.code() in STRANGER:
                raise StrangerError(error.details()) from error
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
            # Somebody who asks at the same time has turned already.
            return
        named = dict(error.trailing_metadata() or ()).get(PRIMARY_METADATA)
        primary = int(named) if isinstance(named, str) else target
        is_sent_on = primary != target and 0 <= primary < len(self._stubs)
        self._target = primary if is_sent_on else (target + 1) % len(self._stubs)
        if is_sent_on and not self._was_sent_here:
            self._was_sent_here = True
            return
        # Two that name each other, while one takes over from the other, are not asked as fast as they answer.
        self._was_sent_here = False
        await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS_MAX))  # noqa: S311  (so that callers do not march)
