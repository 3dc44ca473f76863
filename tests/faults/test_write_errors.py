"""A device that fails writes: error reports, continued operation, and data afterwards (LOG-14, LOG-15)."""

from __future__ import annotations

import resource

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.server_process import ServerProcess

FILE_BYTES_MAX = 256 * 1024


def limit_files(server: ServerProcess, size_bytes: int) -> None:
    """Make writes beyond this position of any file fail from now on."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


def test_a_write_error_closes_its_partition_for_writing(server: ServerProcess) -> None:
    """Acknowledged messages stay readable and survive; the partition refuses appends, and all others work."""
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=3)
        connection.send("s", "t", 1, b"before")
        limit_files(server, FILE_BYTES_MAX)
        acknowledged = 0
        send = frames.send("s", "t", frames.to_partition(0), [frames.message(bytes(10_000))] * 3)
        while (status := connection.status(Code.SEND_MESSAGES, send)) == Status.OK:
            acknowledged += 3
            assert acknowledged < 100
        assert status == Status.CANNOT_WRITE_TO_FILE
        assert acknowledged == FILE_BYTES_MAX // (3 * 10_064) * 3
        for _ in range(3):
            assert connection.status(Code.SEND_MESSAGES, send) == Status.CANNOT_WRITE_TO_FILE
            assert len(connection.poll("s", "t", 0, Strategy.FIRST, count=1000).messages) == acknowledged
        for partition in (1, 2):
            connection.send("s", "t", partition, b"after")
        connection.create_topic("new")
        connection.send("new", "t", 0, b"m")
        eventually("a line about the failure", lambda: "0/0/0" in server.log_tail())
    # With space again, the next start opens the partition for writing.
    server.restart(kill=True)
    with RawConnection.as_root(server.address) as connection:
        found = connection.poll("s", "t", 0, Strategy.FIRST, count=1000)
        assert found.offsets == list(range(len(found.offsets)))
        assert acknowledged <= len(found.offsets) <= acknowledged + 3
        connection.send("s", "t", 0, b"again")
        assert connection.poll("s", "t", 0, Strategy.LAST, count=1).offsets == [len(found.offsets)]
        assert connection.poll("s", "t", 1, Strategy.FIRST).payloads == [b"before", b"after"]


def test_stored_offsets_that_cannot_be_written_are_not_acknowledged(server: ServerProcess) -> None:
    """LOG-10: an acknowledged offset is in its file and survives a kill; offsets that cannot be written are refused."""
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        connection.send("s", "t", 0, *[b"m"] * 1000)
        stored: dict[int, int] = {}
        limit_files(server, 4096)
        for number in range(1000):
            store = frames.consumer_offset("s", "t", 0, number, who=frames.consumer(number % 50))
            if connection.status(Code.STORE_CONSUMER_OFFSET, store) != Status.OK:
                break
            stored[number % 50] = number
        assert stored
        assert connection.is_alive()
    server.restart(kill=True)
    with RawConnection.as_root(server.address) as connection:
        for consumer, offset in stored.items():
            found = connection.stored_offset("s", "t", 0, who=frames.consumer(consumer))
            assert found is not None
            assert found >= offset


def test_producers_do_not_wait_for_stored_offsets(server: ServerProcess) -> None:
    """LOG-14: only consumers wait for a file of offsets that cannot be written, and only until it can be."""
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        connection.send("s", "t", 0, b"m")
        store = frames.consumer_offset("s", "t", 0, 0, who=frames.consumer(1))
        assert connection.status(Code.STORE_CONSUMER_OFFSET, store) == Status.OK
        limit_files(server, 16)
        assert connection.status(Code.STORE_CONSUMER_OFFSET, store) == Status.CANNOT_WRITE_TO_FILE
        # Files are appended to again, but the offsets are tried only every second.
        limit_files(server, FILE_BYTES_MAX)
        connection.send("s", "t", 0, b"n")
        eventually("offsets stored", lambda: connection.status(Code.STORE_CONSUMER_OFFSET, store) == Status.OK)
        eventually("a line about the recovery", lambda: "partition 0/0/0 recovered" in server.log_tail())
    server.restart(kill=True)
    with RawConnection.as_root(server.address) as connection:
        assert connection.stored_offset("s", "t", 0, who=frames.consumer(1)) == 0
        assert connection.poll("s", "t", 0, Strategy.FIRST, count=10).payloads == [b"m", b"n"]


def test_a_catalog_that_cannot_be_written(server: ServerProcess) -> None:
    """Every acknowledged change is in the journal; messages are still accepted."""
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        limit_files(server, 4096)
        assert connection.status(Code.CREATE_STREAM, frames.name("never")) != Status.OK
    if server.is_running:
        server.kill()
    server.start()
    with RawConnection.as_root(server.address) as connection:
        assert connection.ok(Code.GET_STREAM, frames.ident("never")) == b""
        connection.ok(Code.CREATE_STREAM, frames.name("later"))
        connection.send("s", "t", 0, b"m")
