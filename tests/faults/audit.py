"""Comparison of a server's data after a kill with the responses that clients received."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Reader, Stream
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.faults.workload import (
    NAMES,
    PARTITIONS_COUNT,
    STREAM,
    TOPIC,
    Consumer,
    Librarian,
    Producer,
    Workload,
    identity,
)

_PAGE = 5000


class Audit:
    """Incremental checks after each restart, and a full check at the end."""

    def __init__(self, workload: Workload, *, loses_power: bool = False) -> None:
        """Begin with an empty log.

        Args:
            workload: Clients whose acknowledged operations are checked.
            loses_power: Offsets stored by auto-commit may be lost at a power cut: they are not synced.
        """
        self._workload = workload
        self._loses_power = loses_power
        self._logs: list[list[bytes]] = [[] for _ in range(PARTITIONS_COUNT)]
        """Identities of the messages by partition and offset."""

    def check(self, connection: RawConnection) -> None:
        """Check the messages since the last check, the stored offsets and the catalog."""
        for partition, log in enumerate(self._logs):
            log.extend(read_from(connection, partition, len(log)))
        for consumer in self._workload.consumers:
            self._check_consumer(connection, consumer)
        check_catalog(connection, self._workload.librarian)

    def check_everything(self, connection: RawConnection) -> None:
        """Check all messages from the first one, against the earlier checks and every acknowledgement."""
        for partition, log in enumerate(self._logs):
            assert read_from(connection, partition, 0) == log, f"partition {partition} is not what it was"
        check_promises(self._logs, self._workload.producers)

    @property
    def messages_count(self) -> int:
        """Return the number of messages found so far."""
        return sum(map(len, self._logs))

    def _check_consumer(self, connection: RawConnection, consumer: Consumer) -> None:
        log = self._logs[consumer.partition]
        for offset, seen in consumer.seen.items():
            assert offset < len(log), f"offset {offset} of partition {consumer.partition} was read and is gone"
            assert log[offset] == seen, f"offset {offset} of partition {consumer.partition} was {seen!r}"
        who = frames.consumer(consumer.number)
        stored = connection.stored_offset(STREAM, TOPIC, consumer.partition, who=who)
        went_back = stored is None or (consumer.stored is not None and stored < consumer.stored)
        is_excused = went_back and consumer.auto_commit and self._loses_power
        if stored != consumer.stored and not is_excused:
            # The response with the new offset was lost; a stored offset can only have moved forwards.
            assert consumer.may_be_stored, f"{consumer.name}: {consumer.stored} was stored, {stored} is found"
            assert stored is not None, f"{consumer.name}: {consumer.stored} was stored, nothing is found"
            assert consumer.stored is None or stored > consumer.stored
            assert stored in consumer.may_be_stored or -1 in consumer.may_be_stored
        assert stored is None or stored < len(log), f"{consumer.name}: {stored} is stored of {len(log)} messages"
        consumer.stored = stored
        consumer.may_be_stored.clear()


def read_from(connection: RawConnection, partition: int, start: int) -> list[bytes]:
    """Read the identities of the messages from an offset; offsets are dense."""
    found: list[bytes] = []
    while messages := connection.poll(STREAM, TOPIC, partition, Strategy.OFFSET, start + len(found), _PAGE).messages:
        first = start + len(found)
        assert [message.offset for message in messages] == list(range(first, first + len(messages)))
        found += [identity(message.payload) for message in messages]
    return found


def check_promises(logs: Sequence[Sequence[bytes]], producers: Iterable[Producer]) -> None:
    """Check that every acknowledged message exists once, and of a batch in flight at most a prefix, once; nothing else
    exists.
    """
    place_of: dict[bytes, tuple[int, int]] = {}
    for partition, log in enumerate(logs):
        for offset, message in enumerate(log):
            assert message not in place_of, f"{message!r} is at {place_of[message]} and at {(partition, offset)}"
            place_of[message] = (partition, offset)
    for producer in producers:
        for batch in producer.acknowledged:
            places = [place_of.pop(b"%d %d" % (producer.number, message), None) for message in batch]
            assert None not in places, f"{producer.name}: {batch} was acknowledged, and is at {places}"
            assert is_consecutive(places), f"{producer.name}: {batch} is at {places}"
        for batch in producer.unanswered:
            places = [place_of.pop(b"%d %d" % (producer.number, message), None) for message in batch]
            stored = [place for place in places if place is not None]
            assert places[: len(stored)] == stored, f"{producer.name}: {batch} was in flight, and is at {places}"
            assert is_consecutive(stored), f"{producer.name}: {batch} was in flight, and is at {places}"
    assert not place_of, f"messages that no client sent: {list(place_of)[:10]}"


def is_consecutive(places: Sequence[tuple[int, int] | None]) -> bool:
    """Return whether the places are consecutive in one partition."""
    if not places or places[0] is None:
        return True
    partition, first = places[0]
    return list(places) == [(partition, first + number) for number in range(len(places))]


def check_catalog(connection: RawConnection, librarian: Librarian) -> None:
    """Check that created streams exist and deleted ones do not; operations in flight may have either result."""
    reader = Reader(connection.ok(Code.GET_STREAMS))
    found = set()
    while not reader.is_at_end:
        found.add(Stream.read(reader).name)
    assert STREAM in found
    # Ignore streams of other tests that share the cluster.
    found = {name for name in found if name.startswith(NAMES)}
    assert librarian.existing <= found, f"lost: {librarian.existing - found}"
    assert found <= librarian.existing | librarian.unknown, f"came back: {found - librarian.existing}"
    for name in librarian.existing:
        assert connection.poll(name, TOPIC, 1, Strategy.FIRST).payloads == [name.encode()]
    for name in found & librarian.unknown:
        # A stream found in any state has to be deletable.
        connection.ok(Code.DELETE_STREAM, frames.ident(name))
    librarian.unknown.clear()
