"""A gRPC proxy in front of a gateway that counts calls."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc


@dataclass(slots=True)
class Counted:
    """Numbers of forwarded calls."""

    address: str = ""
    calls: int = 0


class _Forwarding(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.Channel, counted: Counted) -> None:
        self._channel = channel
        self._counted = counted

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        # Forward messages as bytes: no serializers.
        ask: Any = self._channel.unary_unary(handler_call_details.method)

        def answer(request: bytes, context: grpc.ServicerContext) -> Any:
            self._counted.calls += 1
            shown = [(key, value) for key, value in context.invocation_metadata() if key == "authorization"]
            return ask(request, metadata=shown, timeout=30.0)

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def counting_listener(address: str) -> Generator[Counted]:
    """Run the proxy during a ``with`` block; it forwards unary calls."""
    counted = Counted()
    with grpc.insecure_channel(address) as channel:
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((_Forwarding(channel, counted),))
        counted.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield counted
        finally:
            server.stop(None).wait()
