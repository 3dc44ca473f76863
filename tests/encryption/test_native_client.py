"""The native client and the command line over TLS (GW-3)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace_core import Client, ConnectionLost, CoreError
from tests.compatibility.protocol.codes import Code
from tests.conftest import StartServer
from tests.encryption.certificates import ServerFiles
from tests.encryption.conftest import TLS, WEBSOCKET_TLS
from tests.encryption.connection import TlsConnection
from tests.server_process import PASSWORD, USERNAME, ServerProcess

HEADRACE = Path(sys.executable).with_name("headrace")
TRANSPORTS = ("tcp", "websocket")


@pytest.fixture
def tls_server(start_server: StartServer, files: ServerFiles) -> ServerProcess:
    """A server with both listeners of the client encrypted."""
    return start_server(TLS | WEBSOCKET_TLS | files.settings() | files.settings("WEBSOCKET_TLS"))


def address(
    server: ServerProcess,
    files: ServerFiles,
    *,
    host: str = "localhost",
    options: str = "",
    transport: str = "tcp",
) -> str:
    listener = server.websocket_address if transport == "websocket" else server.address
    return f"tls://{host}:{listener.rpartition(':')[2]}?ca={files.authority_file}{options}"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_batches_there_and_back(tls_server: ServerProcess, files: ServerFiles, transport: str) -> None:
    """Small and large: what fits a TLS record, and what takes hundreds."""
    client = Client.connect(address(tls_server, files, transport=transport), transport=transport)
    client.login(USERNAME, PASSWORD)
    client.create_stream("s")
    client.create_topic("s", "t", 1)
    payloads = [bytes([number % 251]) * (number * 97) for number in range(1, 400)] + [bytes(20 << 20)]
    client.send("s", "t", payloads, partition=0)
    polled = client.poll("s", "t", 0, strategy="first", count=1000)
    assert [message.payload for message in polled.messages] == payloads
    client.close()
    with TlsConnection.logged_in(tls_server.address, files.trusting()) as other:
        assert len(other.ok(Code.GET_CLIENTS)) > 0


def test_whom_it_trusts(tls_server: ServerProcess, files: ServerFiles) -> None:
    """A certificate has to be of the authority and for the name, unless nothing is to be verified."""
    for good in (
        address(tls_server, files, host="127.0.0.1"),
        address(tls_server, files, host="127.0.0.1", options="&name=localhost"),
        f"tls://localhost:{tls_server.port}?verify=no",
    ):
        client = Client.connect(good)
        client.ping()
        client.close()
    with pytest.raises(ConnectionLost, match="not valid for name"):
        Client.connect(address(tls_server, files, options="&name=elsewhere.example"))
    with pytest.raises(CoreError, match="needs ca=FILE"):
        Client.connect(f"tls://localhost:{tls_server.port}")
    with pytest.raises(ConnectionLost, match=r"No such file"):
        Client.connect(f"tls://localhost:{tls_server.port}?ca=no-such.pem")
    with pytest.raises(ConnectionLost):
        Client.connect(tls_server.address).ping()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_commands(tls_server: ServerProcess, files: ServerFiles, transport: str) -> None:
    """`ping` and `bench`, with the address where every command has it."""
    server = address(tls_server, files, transport=transport)
    environment = os.environ | {"HEADRACE_SERVER": server, "HEADRACE_USERNAME": USERNAME}

    def printed(*arguments: str) -> str:
        result = subprocess.run(
            [HEADRACE, *arguments],
            env=environment | {"HEADRACE_PASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    if transport == "tcp":
        assert "responded in" in printed("ping")
    options = ("--count", "20", "--batch", "10", "--warm-up", "0 s", "--verify", "--json", "--transport", transport)
    report = json.loads(printed("bench", "both", *options))
    assert report["config"]["address"] == server
