"""The client of the server that a pipeline names."""

from __future__ import annotations

from headrace import aio
from headrace.sdk.options import ClientOptions
from headrace_connectors.pipeline_file.models import ServerSettings


def client_of(server: ServerSettings) -> aio.Client:
    """Return a client that is not connected yet."""
    return aio.connect(
        server.url,
        username=server.username,
        password=None if server.password is None else server.password.reveal(),
        token=None if server.token is None else server.token.reveal(),
        options=ClientOptions(request_timeout=server.timeout.seconds, response_timeout=server.timeout.seconds),
    )
