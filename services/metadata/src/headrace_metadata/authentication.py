"""Who may call the service: those who know the cluster's shared secret, or the other one while it is changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
from grpc import aio

from headrace_proto.cluster_token import HEADER, authorization, is_one_of

# A balancer or a supervisor that asks whether the process is well has no secret.
# It asks again and again; to watch would hold a call for as long as somebody likes.
_OPEN: Final = "/grpc.health.v1.Health/Check"


class SharedSecretInterceptor(aio.ServerInterceptor):
    """Refuses every call without the token of the cluster, except for those that ask for its health."""

    def __init__(self, secrets: Sequence[str], cluster_name: str) -> None:
        self._expected = tuple(authorization(secret, cluster_name) for secret in secrets)

        async def refuse(_requests: Any, context: aio.ServicerContext[Any, Any]) -> None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the token is missing or is not that of this cluster: check the cluster's name and its secret",
            )

        # As a stream, of which nothing is received.
        self._refusal: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Let the call through, or answer it with a refusal."""
        if handler_call_details.method == _OPEN or self._is_known(handler_call_details):
            return await continuation(handler_call_details)
        return self._refusal

    def _is_known(self, details: grpc.HandlerCallDetails) -> bool:
        presented = [
            value.encode() if isinstance(value, str) else value
            for name, value in details.invocation_metadata
            if name == HEADER
        ]
        return len(presented) == 1 and is_one_of(presented[0], self._expected)
