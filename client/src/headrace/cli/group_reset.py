"""Moving the stored offsets of a consumer group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from headrace.cli.parameters import Start
from headrace.cli.servers.resolving import TopicPath
from headrace_core import Client, ConsumerGroup, CoreError, Partition


class Move(NamedTuple):
    """Change of one partition; None: no offset is stored, and reading begins with the first message."""

    partition: int
    old_offset: int | None
    new_offset: int | None


def planned(
    client: Client, path: TopicPath, group: ConsumerGroup, partitions: Sequence[Partition], to: Start
) -> list[Move]:
    """Return the moves after which the group reads on at a position.

    Args:
        client: Logged-in client.
        path: The topic.
        group: The group.
        partitions: Partitions to move.
        to: ``first``, ``last`` (after the last message), an offset or a timestamp: of the next message to be read.
    """
    return [
        Move(partition.id, _stored(client, path, group, partition), _target(client, path, partition, to))
        for partition in partitions
    ]


def execute(client: Client, path: TopicPath, group: ConsumerGroup, moves: Sequence[Move]) -> None:
    """Store the new offsets, as the only member of the group."""
    with _joined(client, path, group):
        for move in moves:
            if move.new_offset == move.old_offset:
                continue
            if move.new_offset is None:
                client.delete_offset(path.stream, path.topic, move.partition, group=group.id)
            else:
                client.store_offset(path.stream, path.topic, move.partition, move.new_offset, group=group.id)


def _stored(client: Client, path: TopicPath, group: ConsumerGroup, partition: Partition) -> int | None:
    stored = client.offset(path.stream, path.topic, partition.id, group=group.id)
    return None if stored is None else stored.stored_offset


def _target(client: Client, path: TopicPath, partition: Partition, to: Start) -> int | None:
    """Return the offset to store: of the message before the one to be read next."""
    last = partition.current_offset if partition.messages_count else None
    match to.strategy:
        case "first":
            return None
        case "last":
            return last
        case "offset":
            following = to.value
        case _:
            polled = client.poll(path.stream, path.topic, partition.id, strategy="timestamp", value=to.value, count=1)
            if not polled.messages:
                return last
            following = polled.messages[0].offset
    if following == 0 or last is None:
        return None
    return min(following - 1, last)


@contextmanager
def _joined(client: Client, path: TopicPath, group: ConsumerGroup) -> Iterator[None]:
    client.join_group(path.stream, path.topic, group.id)
    try:
        yield
    finally:
        # Closing the connection ends the membership as well.
        with suppress(CoreError):
            client.leave_group(path.stream, path.topic, group.id)
