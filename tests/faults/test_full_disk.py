"""A server with a full disk: partitions and catalog refuse changes they cannot store, and lose nothing (LOG-14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import TWO_SHARDS
from tests.server_process import ServerProcess
from tests.small_disk import small_disk

MEBIBYTE = 1024 * 1024


def test_a_partition_without_space_is_read_only(tmp_path: Path) -> None:
    """Messages are refused, with the reason in the log. Acknowledged messages stay readable and survive a kill on the
    full disk, and the partition continues from the same offset when the server starts with space again.
    """
    with small_disk(tmp_path / "disk", 64 * MEBIBYTE) as disk:
        server = ServerProcess(disk.path / "data", TWO_SHARDS)
        server.log = tmp_path / "server.log"
        try:
            server.start()
            with RawConnection.as_root(server.address) as connection:
                connection.create_topic("s", partitions=2)
                connection.send("s", "t", 0, b"first")
                connection.send("s", "t", 1, b"first")
                disk.fill()
                acknowledged = 1
                send = frames.send("s", "t", frames.to_partition(0), [frames.message(bytes(30_000))] * 3)
                while (status := connection.status(Code.SEND_MESSAGES, send)) == Status.OK:
                    acknowledged += 3
                    assert acknowledged < 3000
                assert status == Status.CANNOT_WRITE_TO_FILE
                for _ in range(3):
                    assert connection.status(Code.SEND_MESSAGES, send) == Status.CANNOT_WRITE_TO_FILE
                assert offsets(connection, acknowledged) == list(range(acknowledged))
                reason = "no space is left"
                eventually("the reason is logged", lambda: reason in server.log.read_text(encoding="utf-8"))
            server.kill()
            server.start()
            with RawConnection.as_root(server.address) as connection:
                assert offsets(connection, acknowledged) == list(range(acknowledged))
                assert connection.poll("s", "t", 1, Strategy.FIRST).payloads == [b"first"]
            disk.free()
            assert server.stop() == 0
            server.start()
            with RawConnection.as_root(server.address) as connection:
                found = len(offsets(connection, acknowledged + 3))
                assert acknowledged <= found <= acknowledged + 3
                connection.send("s", "t", 0, b"again")
                assert connection.poll("s", "t", 0, Strategy.LAST, count=1).offsets == [found]
                connection.create_topic("later")
            assert server.stop() == 0
            assert "panicked at" not in server.log.read_text(encoding="utf-8")
        finally:
            if server.is_running:
                server.kill()


@pytest.mark.long
def test_a_partition_takes_messages_again_by_itself(tmp_path: Path) -> None:
    """A partition accepts messages soon after space is available, after the acknowledged ones and without a gap."""
    with small_disk(tmp_path / "disk", 64 * MEBIBYTE) as disk:
        server = ServerProcess(disk.path / "data", TWO_SHARDS)
        server.log = tmp_path / "server.log"
        try:
            server.start()
            with RawConnection.as_root(server.address) as connection:
                connection.create_topic("s", partitions=1)
                send = frames.send("s", "t", frames.to_partition(0), [frames.message(bytes(30_000))] * 3)
                store = frames.consumer_offset("s", "t", 0, 0, who=frames.consumer(1))
                acknowledged = sent = 0
                for times in (1, 2):
                    disk.fill()
                    while (status := connection.status(Code.SEND_MESSAGES, send)) == Status.OK:
                        acknowledged += 3
                        assert acknowledged < 3000
                    assert status == Status.CANNOT_WRITE_TO_FILE
                    assert connection.status(Code.STORE_CONSUMER_OFFSET, store) != Status.OK
                    sent = len(offsets(connection, acknowledged))
                    assert sent >= acknowledged
                    disk.free()
                    eventually("messages are taken", lambda: connection.status(Code.SEND_MESSAGES, send) == Status.OK)
                    found = offsets(connection, 3000)
                    # A refused message is stored if its append was in progress when the space ran out.
                    assert found == list(range(len(found)))
                    assert sent + 3 <= len(found) <= sent + 6
                    acknowledged = len(found)
                    for line in ("it goes on when there is some", "recovered from its failure"):
                        eventually("the log says so", lambda line=line, times=times: reported(server, line) >= times)
                connection.ok(Code.STORE_CONSUMER_OFFSET, store)
            server.kill()
            server.start()
            with RawConnection.as_root(server.address) as connection:
                assert offsets(connection, 3000) == list(range(acknowledged))
                assert connection.stored_offset("s", "t", 0) is not None
            assert server.stop() == 0
        finally:
            if server.is_running:
                server.kill()


def test_deleting_segments_makes_room(tmp_path: Path) -> None:
    """Deleting the oldest segments on a full disk makes room for new messages without a restart."""
    with small_disk(tmp_path / "disk", 64 * MEBIBYTE) as disk:
        server = ServerProcess(disk.path / "data", TWO_SHARDS | {"SYSTEM_SEGMENT_SIZE": "1 MiB"})
        server.log = tmp_path / "server.log"
        try:
            server.start()
            with RawConnection.as_root(server.address) as connection:
                connection.create_topic("s", partitions=1)
                send = frames.send("s", "t", frames.to_partition(0), [frames.message(bytes(30_000))] * 3)
                for _ in range(60):
                    connection.ok(Code.SEND_MESSAGES, send)
                disk.fill()
                while connection.status(Code.SEND_MESSAGES, send) == Status.OK:
                    pass
                topic = frames.ident("s") + frames.ident("t")
                connection.ok(Code.DELETE_SEGMENTS, topic + frames.u32(0) + frames.u32(3))
                eventually("messages are taken", lambda: connection.status(Code.SEND_MESSAGES, send) == Status.OK)
                (first,) = connection.poll("s", "t", 0, Strategy.FIRST, count=1).offsets
                assert first > 0
            assert server.stop() == 0
        finally:
            if server.is_running:
                server.kill()


def test_a_catalog_without_space_takes_changes_again_by_itself(tmp_path: Path) -> None:
    """A change that cannot be stored is refused and has no effect; changes are accepted as soon as there is space."""
    with small_disk(tmp_path / "disk", 64 * MEBIBYTE) as disk:
        server = ServerProcess(disk.path / "data", TWO_SHARDS)
        server.log = tmp_path / "server.log"
        try:
            server.start()
            with RawConnection.as_root(server.address) as connection:
                disk.fill()
                created: list[str] = []
                while True:
                    name = f"stream {len(created)}"
                    status = connection.status(Code.CREATE_STREAM, frames.name(name))
                    if status != Status.OK:
                        break
                    created.append(name)
                    assert len(created) < 3000
                assert status == Status.CANNOT_APPEND_TO_FILE
                assert connection.ok(Code.GET_STREAM, frames.ident(name)) == b""
                eventually(
                    "the log says so",
                    lambda: "the metadata journal cannot grow" in server.log.read_text(encoding="utf-8"),
                )
                disk.free()
                taken = frames.name("later")
                eventually("changes are taken", lambda: connection.status(Code.CREATE_STREAM, taken) == Status.OK)
                for name in (created[0], created[-1], "later"):
                    assert connection.ok(Code.GET_STREAM, frames.ident(name)) != b""
            assert server.stop() == 0
            assert "Traceback" not in server.log.read_text(encoding="utf-8")
        finally:
            if server.is_running:
                server.kill()


def reported(server: ServerProcess, line: str) -> int:
    """Return the number of log lines that contain this text."""
    return server.log.read_text(encoding="utf-8").count(line)


def offsets(connection: RawConnection, count: int) -> list[int]:
    """Return the offsets of all messages of the partition, read from the start."""
    found: list[int] = []
    while len(found) < count:
        part = connection.poll("s", "t", 0, Strategy.OFFSET, len(found), count=30).offsets
        if not part:
            break
        found += part
    return found
