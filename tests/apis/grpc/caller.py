"""A client of the gRPC API."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import grpc

from headrace_core import decode_raw_access_token, encode_create_personal_access_token
from headrace_proto.gateway.v1.accounts_pb2_grpc import AccountsStub
from headrace_proto.gateway.v1.catalog_pb2_grpc import CatalogStub
from headrace_proto.gateway.v1.login_pb2_grpc import LoginStub
from headrace_proto.gateway.v1.messages_pb2_grpc import MessagesStub
from headrace_proto.gateway.v1.pipelines_pb2_grpc import PipelinesStub
from headrace_proto.gateway.v1.subscriptions_pb2_grpc import SubscriptionsStub
from headrace_proto.gateway.v1.system_pb2_grpc import SystemStub
from tests.compatibility.protocol.raw import RawConnection


class Authorised(
    grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor
):
    """Interceptor that adds a token to every call."""

    def __init__(self, token: str) -> None:
        self.metadata = (("authorization", f"Bearer {token}"),)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(details._replace(metadata=self.metadata), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(details._replace(metadata=self.metadata), request)

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        return continuation(details._replace(metadata=self.metadata), requests)


class GrpcCaller:
    """Stubs of all services, authenticated by a token."""

    def __init__(self, address: str, token: str | None, tls: grpc.ChannelCredentials | None = None) -> None:
        self.address, self.token = address, token
        options = [("grpc.max_receive_message_length", -1)]
        # Each client has its own connection: the library shares connections among channels with equal options.
        options.append(("grpc.use_local_subchannel_pool", 1))
        if tls is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            self._channel = grpc.secure_channel(address, tls, options)
        channel = self._channel if token is None else grpc.intercept_channel(self._channel, Authorised(token))
        self.catalog = CatalogStub(channel)
        self.accounts = AccountsStub(channel)
        self.login = LoginStub(channel)
        self.messages = MessagesStub(channel)
        self.pipelines = PipelinesStub(channel)
        self.subscriptions = SubscriptionsStub(channel)
        self.system = SystemStub(channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()


def status_of(error: grpc.RpcError) -> tuple[grpc.StatusCode, int]:
    """The gRPC status code of a failed call, and the status number in its trailing metadata."""
    trailing = dict(error.trailing_metadata() or ())
    return error.code(), int(trailing["headrace-status"])


def access_token(connection: RawConnection, name: str = "grpc") -> str:
    """Create an access token of the user who is logged in on a connection."""
    return decode_raw_access_token(connection.ok(*encode_create_personal_access_token(name=name)))
