"""Who may call the service: whoever knows the cluster's shared secret."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from grpc import aio

from headrace_proto.cluster_token import HEADER, authorization

# A balancer or a supervisor that asks whether the process is well has no secret.
_OPEN_PREFIX: Final = "/grpc.health.v1.Health/"


class SharedSecretInterceptor(aio.ServerInterceptor):
    """Refuses every call without the token of the cluster, except for those to the health service."""

    def __init__(self, secret: str, cluster_name: str) -> None:
        self._expected = authorization(secret, cluster_name).encode()

        async def refuse(_request: Any, context: aio.ServicerContext[Any, Any]) -> None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "the token is missing or is not that of this cluster: check the cluster's name and its secret",
            )

        self._refusal: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Let the call through, or answer it with a refusal."""
        if handler_call_details.method.startswith(_OPEN_PREFIX) or self._is_known(handler_call_details):
            return await continuation(handler_call_details)
        return self._refusal

    def _is_known(self, details: grpc.HandlerCallDetails) -> bool:
        presented = [
            value.encode() if isinstance(value, str) else value
            for name, value in details.invocation_metadata
            if name == HEADER
        ]
        return len(presented) == 1 and hmac.compare_digest(presented[0], self._expected)
