"""Unauthenticated clients of sources that receive requests, and their effect on callers and on the process."""

from __future__ import annotations

import http.client
import resource
import socket
from contextlib import ExitStack, closing, suppress

import pytest

from tests.connectors.process import Connectors, until
from tests.ports import free_port

FILES = 512
"""Files that the process may open; the usual limit is 1024."""


def answered(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> int | None:
    """Return the status of an answer; None: the connection was closed."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, 20)) as connection, suppress(ConnectionError):
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    return None


@pytest.mark.long(but=1)
@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(("plugin", "path", "body"), [("webhook", "/", b"1"), ("influxdb", "/write", b"m f=1")])
def test_sockets_without_a_request_stop_neither_callers_nor_the_process(
    connectors: Connectors, stream: str, plugin: str, path: str, body: bytes
) -> None:
    """Regression: they took all files of the process, and nothing was answered as long as they stayed."""
    port = free_port()
    connectors.run(
        f'[sources.a]\nplugin = "{plugin}"\nstream = "{stream}"\ntopic = "t"\n'
        f'[sources.a.settings]\naddress = "127.0.0.1:{port}"\ntoken = "secret"\n'
    )
    connectors.becomes("a", "running")
    resource.prlimit(connectors.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    connectors.post("/connectors/a/restart")
    connectors.becomes("a", "running")
    with ExitStack() as stack:
        for _ in range(FILES + 76):
            with suppress(ConnectionError):
                held = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), 20)))
                held.send(f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode())
        # The process has files for its other work, at once, and the source for its callers when those have left.
        assert connectors.get("/live") == {"status": "ok"}
        token = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
        until(lambda: answered(port, "POST", path, body, **token) in (200, 204), 40)
    assert "Too many open files" not in connectors.tail()
