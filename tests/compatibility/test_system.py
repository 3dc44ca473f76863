"""Statistics, client listings, cluster metadata, diagnostics: complete layouts of the responses (GW-1)."""

from __future__ import annotations

import io
import platform
import socket
import time
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest

from tests.compatibility.conftest import Connect
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Reader
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection, Reply, eventually
from tests.server_process import PASSWORD, ServerProcess

ANONYMOUS = 2**32 - 1
TCP = 1


@dataclass(frozen=True, slots=True)
class Client:
    id: int
    user: int
    transport: int
    address: str
    groups_count: int

    @staticmethod
    def read(reader: Reader) -> Client:
        return Client(reader.number("I"), reader.number("I"), reader.number("B"), reader.str32(), reader.number("I"))


def me(connection: RawConnection) -> Client:
    reader = Reader(connection.ok(Code.GET_ME))
    client = Client.read(reader)
    assert reader.is_at_end
    return client


def clients(connection: RawConnection) -> dict[int, Client]:
    reader = Reader(connection.ok(Code.GET_CLIENTS))
    found = []
    while not reader.is_at_end:
        found.append(Client.read(reader))
    assert len({client.id for client in found}) == len(found)
    return {client.id: client for client in found}


def test_me(root: RawConnection) -> None:
    """The response is the caller's own entry: a number other than 0, its user, its transport and its address."""
    client = me(root)
    assert client.id != 0
    assert client == Client(client.id, 0, TCP, root.local_address, 0)


def test_clients(root: RawConnection, connect: Connect) -> None:
    """Every connection, authenticated or not, is listed until it closes."""
    unauthenticated = connect()
    assert unauthenticated.is_alive()
    by_address = {client.address: client for client in clients(root).values()}
    entry = by_address[unauthenticated.local_address]
    assert entry == Client(entry.id, ANONYMOUS, TCP, unauthenticated.local_address, 0)
    assert by_address[root.local_address] == me(root)
    reader = Reader(root.ok(Code.GET_CLIENT, frames.u32(entry.id)))
    assert Client.read(reader) == entry
    assert reader.is_at_end
    unauthenticated.ok(Code.LOGIN_USER, frames.login("iggy", "iggy"))
    assert clients(root)[entry.id].user == 0
    unauthenticated.ok(Code.LOGOUT_USER)
    assert clients(root)[entry.id].user == ANONYMOUS
    unauthenticated.close()
    eventually("leaving the registry", lambda: entry.id not in clients(root))
    assert root.ok(Code.GET_CLIENT, frames.u32(entry.id)) == b""


def test_a_client_number_that_cannot_be(root: RawConnection) -> None:
    """The number 0 has a status of its own."""
    assert root.request(Code.GET_CLIENT, frames.u32(0)) == Reply(Status.INVALID_CLIENT_ID)
    assert root.ok(Code.GET_CLIENT, frames.u32(ANONYMOUS)) == b""


def test_ping_needs_nothing(connect: Connect) -> None:
    """A ping needs no login and no payload and always succeeds."""
    connection = connect()
    for _ in range(3):
        assert connection.request(Code.PING) == Reply(Status.OK)


def test_cluster_metadata(shared_server: ServerProcess, root: RawConnection) -> None:
    """The cluster has one node with the ports really bound: an official client that reads it stays connected here."""
    reader = Reader(root.ok(Code.GET_CLUSTER_METADATA))
    assert reader.str32() == "single-node"
    assert reader.number("I") == 1
    assert reader.str32() == "iggy-node"
    assert reader.str32() == shared_server.host
    tcp_port, quic_port, _http, websocket_port = reader.take("HHHH")
    assert tcp_port == shared_server.port
    assert quic_port == int(shared_server.quic_address.rpartition(":")[2])
    assert websocket_port == int(shared_server.websocket_address.rpartition(":")[2])
    role, status = reader.take("BB")
    assert (role, status) == (0, 0), "leader and healthy"
    assert reader.is_at_end


def test_stats(shared_server: ServerProcess, root: RawConnection, connect: Connect, stream: str) -> None:
    """The counters cover this server and everything stored in it."""
    # Connections of earlier tests end a moment after their tests.
    eventually("the end of all others", lambda: list(clients(root)) == [me(root).id])
    _, before = stats(root)
    root.create_topic(stream, partitions=3)
    root.send(stream, "t", 1, b"12345", b"6789")
    connect().is_alive()
    process, after = stats(root)
    assert process["process_id"] == shared_server.process.pid
    assert 0 < process["memory_usage"] < process["total_memory"]
    assert 0 < process["available_memory"] <= process["total_memory"]
    assert process["cpu_usage"] >= 0
    assert process["total_cpu_usage"] >= 0
    assert abs(process["start_time"] + process["run_time"] - time.time_ns() // 1000) < 20_000_000
    assert process["threads_count"] >= 1
    assert 0 < process["free_disk_space"] <= process["total_disk_space"]
    assert process["hostname"] == socket.gethostname()
    assert process["kernel_version"] == platform.release()
    assert process["os_name"]
    assert process["server_version"] == "0.8.0"
    assert process["server_semver"] == 8000
    grown = {name: after[name] - before[name] for name in after}
    assert grown == {
        "messages_size_bytes": 2 * frames.MESSAGE_HEADER_BYTES + 9,
        "streams_count": 1,
        "topics_count": 1,
        "partitions_count": 3,
        "segments_count": 3,
        "messages_count": 2,
        "clients_count": 1,
        "consumer_groups_count": 0,
    }


def stats(connection: RawConnection) -> tuple[dict[str, Any], dict[str, int]]:
    """Decode `Stats`: values of the process and its machine, and of the stored data."""
    reader = Reader(connection.ok(Code.GET_STATS))
    process: dict[str, Any] = {}
    counters: dict[str, int] = {}
    (process["process_id"],) = reader.take("I")
    process["cpu_usage"], process["total_cpu_usage"] = reader.take("ff")
    for name in (
        "memory_usage", "total_memory", "available_memory", "run_time", "start_time", "read_bytes", "written_bytes",
    ):  # fmt: skip
        process[name] = reader.number("Q")
    counters["messages_size_bytes"] = reader.number("Q")
    for name in ("streams_count", "topics_count", "partitions_count", "segments_count"):
        counters[name] = reader.number("I")
    counters["messages_count"] = reader.number("Q")
    counters["clients_count"] = reader.number("I")
    counters["consumer_groups_count"] = reader.number("I")
    for name in ("hostname", "os_name", "os_version", "kernel_version", "server_version"):
        process[name] = reader.str32()
    process["server_semver"] = reader.number("I")
    for _ in range(reader.number("I")):
        reader.take("IIIQQf")
    process["threads_count"] = reader.number("I")
    process["free_disk_space"], process["total_disk_space"] = reader.take("QQ")
    assert reader.is_at_end
    return process, counters


SNAPSHOT_ENTRIES = {
    1: "filesystem_overview",
    2: "process_list",
    3: "resource_usage",
    4: "test",
    5: "server_logs",
    6: "server_config",
}


@pytest.mark.parametrize(("kind", "entry"), SNAPSHOT_ENTRIES.items(), ids=SNAPSHOT_ENTRIES.values())
def test_a_snapshot_of_one_thing(root: RawConnection, kind: int, entry: str) -> None:
    """The response is a ZIP archive with one text file."""
    with zipfile.ZipFile(io.BytesIO(root.ok(Code.GET_SNAPSHOT, bytes([2, 1, kind])))) as archive:
        assert archive.namelist() == [f"{entry}.txt"]
        assert archive.read(f"{entry}.txt")


def test_a_snapshot_of_everything_contains_no_secret(root: RawConnection) -> None:
    """The archive contains all entries except the test entry, and no password."""
    with zipfile.ZipFile(io.BytesIO(root.ok(Code.GET_SNAPSHOT, bytes([2, 1, 100])))) as archive:
        expected = {f"{entry}.txt" for entry in SNAPSHOT_ENTRIES.values() if entry != "test"}
        assert set(archive.namelist()) == expected
        assert f'"{PASSWORD}"'.encode() not in archive.read("server_config.txt").replace(b'username = "iggy"', b"")
        for name in archive.namelist():
            assert b"$argon2" not in archive.read(name)


@pytest.mark.parametrize(
    ("compression", "method"),
    [(1, zipfile.ZIP_STORED), (2, zipfile.ZIP_DEFLATED), (3, zipfile.ZIP_BZIP2), (5, zipfile.ZIP_LZMA)],
    ids=["stored", "deflated", "bzip2", "lzma"],
)
def test_a_snapshot_is_compressed_as_asked(root: RawConnection, compression: int, method: int) -> None:
    """The archive uses the requested compression, as far as Python's `zipfile` reports it."""
    with zipfile.ZipFile(io.BytesIO(root.ok(Code.GET_SNAPSHOT, bytes([compression, 1, 4])))) as archive:
        assert archive.testzip() is None
        assert {entry.compress_type for entry in archive.infolist()} == {method}
