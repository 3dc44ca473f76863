"""The official client over TLS and QUIC (GW-3)."""

from __future__ import annotations

import pytest
from apache_iggy import IggyClient, PollingStrategy, SendMessage

from tests.conftest import StartServer
from tests.encryption.certificates import ServerFiles
from tests.encryption.conftest import WEBSOCKET_TLS
from tests.official_quic import quic_clients
from tests.server_process import PASSWORD, USERNAME, ServerProcess

SCHEMES = {"tcp": "iggy+tcp", "websocket": "iggy+ws", "quic": "iggy+quic"}


def connection_string(transport: str, server: ServerProcess, files: ServerFiles, *, name: str = "localhost") -> str:
    """Connection string of the official client."""
    start = f"{SCHEMES[transport]}://{USERNAME}:{PASSWORD}@"
    if transport == "quic":
        return f"{start}{server.quic_address}?reconnection_max_retries=1"
    address = server.address if transport == "tcp" else server.websocket_address
    return f"{start}{address}?tls=true&tls_domain={name}&tls_ca_file={files.authority_file}&reconnection_retries=1"


@pytest.mark.parametrize("transport", SCHEMES)
async def test_sending_and_polling(start_server: StartServer, files: ServerFiles, transport: str) -> None:
    settings = {"TCP_TLS_ENABLED": "true", **files.settings()}
    server = start_server(settings | WEBSOCKET_TLS | files.settings("WEBSOCKET_TLS"))
    string = connection_string(transport, server, files)
    if transport == "quic":
        [client] = await quic_clients(connection_string("tcp", server, files), string)
    else:
        client = IggyClient.from_connection_string(string)
    await client.connect()
    await client.ping()
    await client.create_stream("s")
    await client.create_topic("s", "t", 1)
    texts = [f"message {number}" * (1 + number * 50) for number in range(100)]
    await client.send_messages("s", "t", 0, [SendMessage(text) for text in texts])
    polled = await client.poll_messages("s", "t", 0, PollingStrategy.First(), 100, auto_commit=False)
    assert [message.payload().decode() for message in polled] == texts


async def test_a_wrong_name_is_refused(tls_server: ServerProcess, files: ServerFiles) -> None:
    string = connection_string("tcp", tls_server, files, name="elsewhere.example")
    client = IggyClient.from_connection_string(string)
    with pytest.raises(RuntimeError, match="CannotEstablishConnection"):
        await client.connect()
