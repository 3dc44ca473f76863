"""Reading as a member of a consumer group, for `headrace poll --group`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Final

import click

from headrace.cli import output
from headrace.cli.messages import following
from headrace.cli.messages.message_output import Printer
from headrace.cli.servers.resolving import TopicPath, find_group, find_topic
from headrace.cli.servers.target import Target
from headrace_core import Client, ConsumerGroup, CoreError, ServerError

_INTERRUPTED: Final = 130
_CHUNK_MESSAGES: Final = 1000


@dataclass(slots=True)
class Membership:
    """Reads after the stored offsets of a group, and stores the offsets of what was printed."""

    stream: str
    topic: str
    group: str
    count: int | None
    """Total number of messages, or per poll when following; None: no limit."""
    follow: bool
    """Continue until Ctrl-C. Messages already received are then still printed and their offsets stored."""
    show: Printer
    """Called with each message and its partition. If it fails, its batch counts as unread."""

    def read(self, target: Target) -> None:
        """Join the group, read, leave."""
        with target.connected() as client:
            path = find_topic(client, self.stream, self.topic)
            group = find_group(client, path, self.group)
            with _noted_interrupt() as interrupted:
                client.join_group(path.stream, path.topic, group.id)
                try:
                    self._read(client, path, group, interrupted)
                finally:
                    # Closing the connection ends the membership as well.
                    with suppress(CoreError):
                        client.leave_group(path.stream, path.topic, group.id)
            if interrupted():
                raise click.exceptions.Exit(_INTERRUPTED)

    def _read(self, client: Client, path: TopicPath, group: ConsumerGroup, interrupted: Callable[[], bool]) -> None:
        # The server polls the partitions in turn: after one empty answer per partition, all are empty.
        read, waits = client.poll, following.can_wait(client)
        if waits:
            read = partial(client.wait, maximum_wait_seconds=following.WAIT_SECONDS if self.follow else 0.0)
        shown = empty = 0
        limit = self.count if self.count is not None else sys.maxsize
        while not interrupted() and (self.follow or (shown < limit and empty < group.partitions_count)):
            count = min(_CHUNK_MESSAGES, limit if self.follow else limit - shown)
            polled = read(path.stream, path.topic, None, group=group.id, count=count)
            following.warn_of_gap(polled.partition_id, polled.gap)
            for message in polled.messages:
                self.show(polled.partition_id, message)
            sys.stdout.flush()
            shown += len(polled.messages)
            if polled.messages:
                empty = 0
                _store(client, path, group, polled.partition_id, polled.messages[-1].offset)
            else:
                empty += 1
                if self.follow and not waits and empty >= group.partitions_count:
                    empty = 0
                    following.pause()


def _store(client: Client, path: TopicPath, group: ConsumerGroup, partition: int, offset: int) -> None:
    try:
        client.store_offset(path.stream, path.topic, partition, offset, group=group.id)
    except ServerError as error:
        # The partition has moved to another member, which starts after the last stored offset.
        if error.name != "NotResolvedConsumer":
            raise
        output.say(f"partition {partition} was assigned to another member, which will read offset {offset} again")


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
