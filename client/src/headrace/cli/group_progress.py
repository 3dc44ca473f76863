"""Progress and lag of a consumer group, queried over the binary protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace_core import Client, ConsumerGroup, Partition, ServerError, Topic


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a group in one partition."""

    partition_id: int
    member: int | None
    """Id, within the group, of the member that owns the partition."""
    stored_offset: int | None
    """Offset of the last processed message."""
    last_offset: int | None
    """Offset of the newest message."""
    lag_messages: int | None
    """Number of readable messages not processed yet; None if the node of the partition is not reached."""
    lag_seconds: float | None = None
    """Age of the oldest of them; 0 if there is none, None if not requested or unreadable."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of a group in the whole topic."""

    lag_messages: int
    """Lag in all partitions whose node is reached."""
    lag_seconds: float | None
    """Largest lag of a partition."""
    partitions: list[Progress]


def progress_of(client: Client, stream: int | str, topic: Topic, group: ConsumerGroup) -> list[Progress]:
    """Return the progress in messages, by partition."""
    owners = {partition: member.id for member in group.members for partition in member.partitions}
    return [
        _progress(client, stream, topic, partition, group, owners.get(partition.id)) for partition in topic.partitions
    ]


def lag_of(client: Client, stream: int | str, topic: Topic, group: ConsumerGroup, *, now_micros: int) -> Lag:
    """Return the lag in messages and seconds; reads one message of each lagging partition."""
    partitions = [
        replace(progress, lag_seconds=_seconds(client, stream, topic, progress, now_micros))
        for progress in progress_of(client, stream, topic, group)
    ]
    late = [progress.lag_seconds for progress in partitions if progress.lag_messages]
    known = [seconds for seconds in late if seconds is not None]
    worst = max(known) if known else (None if late else 0.0)
    return Lag(sum(progress.lag_messages or 0 for progress in partitions), worst, partitions)


def _progress(
    client: Client, stream: int | str, topic: Topic, partition: Partition, group: ConsumerGroup, member: int | None
) -> Progress:
    # An empty partition has no last offset.
    last_offset = partition.current_offset if partition.messages_count else None
    try:
        stored = client.offset(stream, topic.id, partition.id, group=group.id)
    except ServerError as error:
        # One node must not hide the partitions of the others.
        if error.name != "PartitionUnavailable":
            raise
        return Progress(partition.id, member, stored_offset=None, last_offset=last_offset, lag_messages=None)
    behind = partition.messages_count if stored is None else stored.current_offset - stored.stored_offset
    return Progress(
        partition_id=partition.id,
        member=member,
        stored_offset=None if stored is None else stored.stored_offset,
        last_offset=last_offset,
        # Expired messages do not count.
        lag_messages=max(0, min(behind, partition.messages_count)),
    )


def _seconds(client: Client, stream: int | str, topic: Topic, progress: Progress, now_micros: int) -> float | None:
    if not progress.lag_messages:
        return None if progress.lag_messages is None else 0.0
    try:
        # Poll as a single consumer, which needs no membership; no offset is stored.
        polled = client.poll(
            stream,
            topic.id,
            progress.partition_id,
            strategy="first" if progress.stored_offset is None else "offset",
            value=0 if progress.stored_offset is None else progress.stored_offset + 1,
            count=1,
        )
    except ServerError:
        # One damaged partition must not hide the others.
        return None
    return max(0, now_micros - polled.messages[0].timestamp_micros) / 1_000_000 if polled.messages else None
