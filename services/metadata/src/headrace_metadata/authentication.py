"""Authentication of callers by the cluster's shared secret, or the second accepted secret during a change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NoReturn

import grpc
from grpc import aio

from headrace_chassis.grpc.server import starts_of_calls
from headrace_chassis.grpc.status import Refused, code_of, end_call, status_metadata
from headrace_chassis.grpc.unauthenticated import UnauthenticatedCalls, UnauthenticatedInterceptor
from headrace_proto.cluster_token import HEADER, authorization, is_one_of

# Public: load balancers and supervisors that check the health have no secret. Only the unary check is public because a
# watch would let unauthenticated clients hold calls for any time.
_HEALTH: Final = "grpc.health.v1.Health"
_OPEN: Final = f"/{_HEALTH}/Check"


class SharedSecretInterceptor(aio.ServerInterceptor):
    """Refuses calls without the cluster's token, except for health checks."""

    def __init__(self, secrets: Sequence[str], cluster_name: str) -> None:
        self._expected = tuple(authorization(secret, cluster_name) for secret in secrets)

        async def refuse(_requests: Any, context: aio.ServicerContext[Any, Any]) -> None:
            await end_call(
                context,
                grpc.StatusCode.UNAUTHENTICATED,
                "the token is missing or is not that of this cluster: check the cluster's name and its secret",
            )

        # Refuse as a stream handler, so that no request is received.
        self._refusal: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(refuse)
        self._checks = UnauthenticatedInterceptor(UnauthenticatedCalls(), (_HEALTH,), _refuse, starts_of_calls())

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Continue the call, or return a handler that refuses it."""
        if self._is_known(handler_call_details):
            return await continuation(handler_call_details)
        if handler_call_details.method == _OPEN:
            return await self._checks.intercept_service(continuation, handler_call_details)
        return self._refusal

    def _is_known(self, details: grpc.HandlerCallDetails) -> bool:
        presented = [
            value.encode() if isinstance(value, str) else value
            for name, value in details.invocation_metadata
            if name == HEADER
        ]
        return len(presented) == 1 and is_one_of(presented[0], self._expected)


async def _refuse(context: aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    if isinstance(error, Refused):
        await end_call(context, code_of(error.status), str(error), status_metadata(error.status))
    raise error
