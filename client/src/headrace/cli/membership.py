"""Reading as a member of a consumer group, for `headrace poll --group`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType

import typer

from headrace.cli import following, output
from headrace_core import Client, CoreError, Message, ServerError
from headrace_proto.errors import Status

_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Group:
    """A group by its path."""

    stream: int | str
    topic: int | str
    name: int | str


def read_as_member(
    client: Client, group: Group, *, count: int, follow: bool, show: Callable[[int, Message], None]
) -> None:
    """Join the group, read after its stored offsets, store the offsets of printed messages, leave.

    Args:
        client: Logged-in client; the membership belongs to its connection.
        group: Existing group.
        count: Total number of messages, or per poll when following.
        follow: Continue until Ctrl-C. Messages already received are then still printed and their offsets stored.
        show: Called with each message and its partition. If it fails, its batch counts as unread.
    """
    with _noted_interrupt() as interrupted:
        client.join_group(group.stream, group.topic, group.name)
        try:
            _read(client, group, count=count, follow=follow, show=show, interrupted=interrupted)
        finally:
            # Closing the connection ends the membership as well.
            with suppress(CoreError):
                client.leave_group(group.stream, group.topic, group.name)
    if interrupted():
        raise typer.Exit(_INTERRUPTED)


def _read(
    client: Client,
    group: Group,
    *,
    count: int,
    follow: bool,
    show: Callable[[int, Message], None],
    interrupted: Callable[[], bool],
) -> None:
    # The server polls the partitions in turn: after one empty answer per partition, all are empty.
    found = client.group(group.stream, group.topic, group.name)
    partitions_count = found.partitions_count if found is not None else 0
    read, waits = client.poll, following.can_wait(client)
    if waits:
        read = partial(client.wait, maximum_wait_seconds=following.WAIT_SECONDS if follow else 0.0)
    shown = empty = 0
    while not interrupted() and (follow or (shown < count and empty < partitions_count)):
        polled = read(group.stream, group.topic, None, group=group.name, count=count if follow else count - shown)
        following.warn_of_gap(polled.partition_id, polled.gap)
        for message in polled.messages:
            show(polled.partition_id, message)
        sys.stdout.flush()
        shown += len(polled.messages)
        if polled.messages:
            empty = 0
            _store(client, group, polled.partition_id, polled.messages[-1].offset)
        else:
            empty += 1
            if follow and not waits and empty >= partitions_count:
                empty = 0
                following.pause()


def _store(client: Client, group: Group, partition: int, offset: int) -> None:
    try:
        client.store_offset(group.stream, group.topic, partition, offset, group=group.name)
    except ServerError as error:
        # The partition has moved to another member, which starts after the last stored offset.
        if error.code != Status.NOT_RESOLVED_CONSUMER:
            raise
        output.stderr().print(
            f"partition {partition} was assigned to another member, which will read offset {offset} again"
        )


@contextmanager
def _noted_interrupt() -> Iterator[Callable[[], bool]]:
    """Record the first Ctrl-C within the block; the second one ends the program at once."""
    noted = False

    def note(_signal: int, _frame: FrameType | None) -> None:
        nonlocal noted
        noted = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
