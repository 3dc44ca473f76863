"""Export of the audit trail to a syslog server."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace_gateway.audit.audit_log import AuditLog
from headrace_gateway.audit.config import AuditConfig
from headrace_gateway.audit.syslog import SyslogServer
from headrace_gateway.config import GatewayConfig
from headrace_proto.errors import Status

NOW = 1_700_000_000_123_456
HEAD = re.compile(rb"<(\d+)>1 (\S+) (\S+) headrace (\d+) (\S+) - (.*)", re.DOTALL)


class NoUsers:
    version = 1

    def user(self, user_id: int) -> None:
        return None


@asynccontextmanager
async def exporting(directory: Path, server: str) -> AsyncIterator[AuditLog]:
    config = AuditConfig(syslog=SyslogServer.parse(server))
    trail = AuditLog(config, directory, gateway="g", accounts=NoUsers(), clock=lambda: NOW)  # type: ignore[arg-type]
    async with trail.working():
        yield trail


def checked(message: bytes) -> tuple[int, str, str]:
    """Return priority, message id and action of a message."""
    found = HEAD.fullmatch(message)
    assert found is not None, message
    assert found[2] == b"2023-11-14T22:13:20.123456Z"
    return int(found[1]), found[5].decode(), json.loads(found[6])["action"]


@pytest.mark.parametrize("scheme", ["udp", "unix"])
async def test_datagrams_have_one_event_each(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "log"
    with socket.socket(socket.AF_INET if scheme == "udp" else socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0) if scheme == "udp" else str(path))
        server.settimeout(20)
        address = f"udp://127.0.0.1:{server.getsockname()[1]}" if scheme == "udp" else f"unix://{path}"
        async with exporting(tmp_path, address) as trail:
            await trail.changed("create_user", {"username": "b\nob"}, user_id=1)
            assert checked(await asyncio.to_thread(server.recv, 65536)) == (109, "change", "create_user")
            await trail.refused("delete_user", Status.UNAUTHORIZED, user_id=1)
            assert checked(await asyncio.to_thread(server.recv, 65536)) == (108, "refusal", "delete_user")


async def test_a_stream_counts_octets_and_is_connected_again(tmp_path: Path) -> None:
    received: asyncio.Queue[tuple[asyncio.StreamWriter, bytes]] = asyncio.Queue()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int(await reader.readuntil(b" "))
                received.put_nowait((writer, await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server, asyncio.timeout(60):
        port = server.sockets[0].getsockname()[1]
        async with exporting(tmp_path, f"tcp://127.0.0.1:{port}") as trail:
            for action in ("create_user", "delete_user"):
                await trail.changed(action, {"username": "b\nob"}, user_id=1)
            writer, first = await received.get()
            assert [checked(first), checked((await received.get())[1])] == [
                (109, "change", "create_user"),
                (109, "change", "delete_user"),
            ]
            writer.transport.abort()
            await writer.wait_closed()
            await trail.changed("update_user", {}, user_id=1)
            assert checked((await received.get())[1]) == (109, "change", "update_user")


async def test_a_server_that_is_gone_costs_no_request_and_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        async with exporting(tmp_path, address) as trail, asyncio.timeout(60):
            for _ in range(5):
                # A queue of files takes 4,096 at a time; this is about the queue of the export.
                await asyncio.gather(*(trail.changed("create_access_token", {}, user_id=1) for _ in range(1000)))
            await trail.changed("delete_user", {}, user_id=1)
            assert trail.lost_counts["export"] == 5000 - 4096, "the events of another class have a queue of their own"
        assert trail.lost_counts["export"] == 5001, "what is left at the end is lost as well"
        assert trail.lost_counts["queue"] == 0
    assert "audit trail lost" in caplog.text


async def test_events_of_a_stop_are_sent(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(20)
        async with exporting(tmp_path, f"udp://127.0.0.1:{server.getsockname()[1]}") as trail:
            await asyncio.gather(*(trail.changed("delete_user", {}, user_id=1) for _ in range(50)))
        assert [checked(server.recv(65536))[2] for _ in range(50)] == ["delete_user"] * 50
        assert trail.lost_counts["export"] == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("udp://127.0.0.1", "udp://127.0.0.1:514"),
        ("tcp://[::1]:70", "tcp://[::1]:70"),
        ("tls://logs.example.org", "tls://logs.example.org:6514"),
        ("unix:///dev/log", "unix:///dev/log"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert str(SyslogServer.parse(text)) == shown
    assert GatewayConfig.model_validate({"audit": {"syslog": text}}).audit.syslog == SyslogServer.parse(text)


@pytest.mark.parametrize(
    "text", ["127.0.0.1:514", "http://x", "unix://dev/log", "tcp://", "tcp://a:99999", "tcp://u@h"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SyslogServer.parse(text)
