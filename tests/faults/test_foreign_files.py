"""Foreign and oversized files in a partition's directory: reported by name, and not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.faults import segment_files
from tests.faults.conftest import CONSUMER_OFFSET, MESSAGES_COUNT, NEIGHBOUR, SETTINGS, Prepared
from tests.server_process import ServerProcess

MIB = 1 << 20


def test_a_byte_that_rots_after_it_was_read_is_found(prepared: Prepared) -> None:
    """LOG-12: a verified message is verified again when it is later read from the file."""
    settings = SETTINGS | {"SYSTEM_PARTITION_VERIFIED_FOR": "0 s"}
    victim = prepared.victim(0)
    server = ServerProcess(prepared.server.data, settings).start()
    try:
        with RawConnection.as_root(server.address) as connection:
            assert victim.read_each(connection) == victim.expected()
            message = segment_files.messages(victim.sealed)[10]
            segment_files.flip(victim.sealed, message.position + segment_files.HEADER_BYTES + 100)
            answers = victim.expected()
            answers[message.offset] = Status.INVALID_MESSAGE_CHECKSUM
            assert victim.read_each(connection) == answers
    finally:
        assert server.stop() == 0


@pytest.mark.long
def test_offsets_files_of_any_size_keep_no_server_from_starting(prepared: Prepared) -> None:
    """LOG-14: an offsets file far beyond the maximum closes its partition, with the reason; valid records of a long one
    count.
    """
    sizes = {600 * MIB: CONSUMER_OFFSET, 1024 * MIB + 1: None, 5 * 1024 * MIB: None}
    victims = dict(zip(sizes, prepared.victims(len(sizes)), strict=True))
    for size, victim in victims.items():
        segment_files.cut(victim.directory / "offsets", size)
    with prepared.start() as connection:
        prepared.assert_the_rest_works(connection)
        for size, victim in victims.items():
            if sizes[size] is not None:
                assert connection.stored_offset("s", "t", victim.number) == sizes[size]
                victim.assert_complete(connection)
                assert (victim.directory / "offsets").stat().st_size < MIB, "what was wrong is still there"
                words = (f"0/0/{victim.number}:", "offsets", "damaged")
                eventually(f"a line with {words}", lambda words=words: prepared.log_lines(*words))
                continue
            status = connection.status(Code.POLL_MESSAGES, victim.poll_request(Strategy.FIRST))
            assert status == Status.CANNOT_READ_PARTITIONS
            words = (f"0/0/{victim.number}", "offsets", str(size))
            eventually(f"a line with {words}", lambda words=words: prepared.log_lines(*words))
    prepared.server.stop()
    closed = [victim for size, victim in victims.items() if sizes[size] is None]
    for victim in closed:
        (victim.directory / "offsets").unlink()
    with prepared.start() as connection:
        for victim in closed:
            assert connection.stored_offset("s", "t", victim.number) is None
            victim.assert_complete(connection)


def test_logs_of_other_partitions_are_not_taken_for_segments(prepared: Prepared) -> None:
    """LOG-13: a foreign log is renamed, reported and not read; the partition's own files stay unchanged."""
    neighbour = prepared.victim(NEIGHBOUR)
    foreign = neighbour.sealed.read_bytes()
    bases = [7, MESSAGES_COUNT, 1_000_000]
    victims = dict(zip(bases, prepared.victims(len(bases)), strict=True))

    def put(base: int) -> Path:
        log = victims[base].directory / f"{base:020}.log"
        assert not log.exists()
        log.write_bytes(foreign)
        log.with_suffix(".index").write_bytes(neighbour.sealed.with_suffix(".index").read_bytes())
        return log

    logs = {base: put(base) for base in bases}
    with prepared.start() as connection:
        for base, victim in victims.items():
            victim.assert_complete(connection)
            kept = logs[base].with_suffix(".foreign-1")
            assert kept.read_bytes() == foreign
            words = (f"0/0/{victim.number}:", logs[base].name, kept.name)
            eventually(f"a line with {words}", lambda words=words: prepared.log_lines(*words))
        prepared.assert_the_rest_works(connection)
    with prepared.restart(kill=True) as connection:
        for base, victim in victims.items():
            victim.assert_complete(connection, MESSAGES_COUNT + 1)
            assert logs[base].with_suffix(".foreign-1").read_bytes() == foreign


def test_consumers_with_stored_offsets_are_bounded(tmp_path: Path) -> None:
    """LOG-10: a consumer beyond the limit is refused with a status of its own, also in a poll with auto-commit; others
    work. One user may have half of them.
    """
    server = ServerProcess(tmp_path / "data", SETTINGS | {"SYSTEM_PARTITION_MAX_CONSUMERS": "4"}).start()
    try:
        with RawConnection.as_root(server.address) as connection:
            connection.create_topic("s", partitions=1)
            connection.send("s", "t", 0, b"a", b"b")

            def store(consumer: int, offset: int) -> Status:
                request = frames.consumer_offset("s", "t", 0, offset, who=frames.consumer(consumer))
                return connection.status(Code.STORE_CONSUMER_OFFSET, request)

            assert [store(consumer, 0) for consumer in (1, 2, 3, 1)] == [0, 0, Status.TOO_MANY_CONSUMERS, 0]
            poll = frames.poll("s", "t", 0, Strategy.FIRST, 0, 2, who=frames.consumer(3), auto_commit=True)
            assert connection.status(Code.POLL_MESSAGES, poll) == Status.TOO_MANY_CONSUMERS
            poll = frames.poll("s", "t", 0, Strategy.FIRST, 0, 2, who=frames.consumer(3))
            assert connection.status(Code.POLL_MESSAGES, poll) == Status.OK
    finally:
        assert server.stop() == 0
