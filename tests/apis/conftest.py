"""Clients of the server that a module's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def root(shared_server: ServerProcess) -> Iterator[GrpcCaller]:
    """Root's client of the gRPC API."""
    with RawConnection.as_root(shared_server.address) as connection:
        token = access_token(connection)
    with GrpcCaller(shared_server.grpc_address, token) as caller:
        yield caller
