"""Reading of partitions for `headrace poll`, in ranges, with filters, and on after a lost connection."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headrace.cli.messages import following
from headrace.cli.messages.message_output import Printer, header_text
from headrace.cli.parameters import Start
from headrace.cli.servers.resolving import TopicPath, find_topic
from headrace.cli.servers.target import Target
from headrace_core import Client, Message, Polled

_CHUNK_MESSAGES: Final = 1000

Read = Callable[..., Polled]


@dataclass(frozen=True, slots=True)
class Selection:
    """Choice of the messages that are printed."""

    until: Start | None = None
    """Stop before this offset or timestamp."""
    pattern: re.Pattern[str] | None = None
    """Expression that the payload contains."""
    headers: Sequence[tuple[str, str]] = ()
    """Headers that the message has."""

    @property
    def is_everything(self) -> bool:
        """Return whether no message is left out."""
        return self.until is None and self.pattern is None and not self.headers

    def is_over(self, message: Message) -> bool:
        """Return whether this message is behind the end."""
        match self.until:
            case None:
                return False
            case Start(strategy="offset", value=offset):
                return message.offset >= offset
            case Start(value=micros):
                return message.timestamp_micros >= micros

    def has(self, message: Message) -> bool:
        """Return whether the filters let the message through."""
        if self.pattern is not None and not self.pattern.search(message.payload.decode("utf-8", errors="replace")):
            return False
        return all(header_text(message, name) == value for name, value in self.headers)


@dataclass(slots=True)
class Reader:
    """Reads partitions in turn, each from its position on."""

    stream: str
    topic: str
    wanted: tuple[int, ...] | None
    first: Start
    count: int | None
    """Maximum number of printed messages of each partition; None: no limit."""
    consumer: int | str
    commit: bool
    selection: Selection
    show: Printer
    positions: dict[int, Start] = field(default_factory=dict)
    """Position of each partition, which outlives a connection."""
    ended: set[int] = field(default_factory=set)
    """Partitions whose end of the selection is reached."""

    def read_once(self, target: Target) -> None:
        """Print what is there."""
        with target.connected() as client:
            path = find_topic(client, self.stream, self.topic)
            read: Read = client.poll
            if following.can_wait(client):
                read = partial(client.wait, maximum_wait_seconds=0.0)
            for number in path.partitions(self.wanted):
                self._read_partition(client, read, path, number)
                sys.stdout.flush()

    def follow(self, target: Target) -> None:
        """Print what is there and what arrives, until every partition has reached its end; reconnect if necessary."""
        following.persistently(partial(self._follow, target))

    def _follow(self, target: Target) -> None:
        with ExitStack() as stack:
            client = stack.enter_context(target.connected())
            path = find_topic(client, self.stream, self.topic)
            partitions = path.partitions(self.wanted)
            read, until_news = client.poll, following.pause
            if following.can_wait(client):
                read = partial(client.wait, maximum_wait_seconds=0.0)
                if len(partitions) == 1:
                    read = partial(client.wait, maximum_wait_seconds=following.WAIT_SECONDS)
                    until_news = following.at_once
                else:
                    other = stack.enter_context(target.connected())
                    until_news = following.until_news(other, path.stream, path.topic, partitions)
            while not self.ended.issuperset(partitions):
                seen = 0
                for number in partitions:
                    if number not in self.ended:
                        seen += self._read_chunk(client, read, path, number, None)[0]
                sys.stdout.flush()
                if not seen:
                    until_news()

    def _read_partition(self, client: Client, read: Read, path: TopicPath, number: int) -> None:
        left = self.count
        while number not in self.ended and left != 0:
            seen, shown = self._read_chunk(client, read, path, number, left)
            if not seen:
                return
            left = None if left is None else left - shown

    def _read_chunk(
        self, client: Client, read: Read, path: TopicPath, number: int, left: int | None
    ) -> tuple[int, int]:
        """Read once, and print what is selected; return the numbers of messages that were seen and printed."""
        position = self.positions.get(number, self.first)
        polled = read(
            path.stream,
            path.topic,
            number,
            strategy=position.strategy,
            value=position.value,
            count=self._chunk(position, left),
            consumer=self.consumer,
        )
        following.warn_of_gap(number, polled.gap)
        seen = shown = 0
        for message in polled.messages:
            if self.selection.is_over(message):
                self.ended.add(number)
                break
            if left is not None and shown == left:
                break
            seen += 1
            if self.selection.has(message):
                self.show(number, message)
                shown += 1
        if seen:
            self.positions[number] = Start("offset", polled.messages[seen - 1].offset + 1)
            if self.commit:
                # After the output, so that what was not printed is read again.
                sys.stdout.flush()
                client.store_offset(path.stream, path.topic, number, polled.messages[seen - 1].offset, self.consumer)
        elif polled.gap is not None:
            self.positions[number] = Start("offset", polled.gap[1])
        elif position.strategy == "last" and not polled.messages:
            self.positions[number] = Start("first")
        return seen + (polled.gap is not None and not polled.messages), shown

    def _chunk(self, position: Start, left: int | None) -> int:
        if position.strategy == "last":
            # The request itself says how far back it begins.
            return left if left is not None else self.count or _CHUNK_MESSAGES
        return min(left, _CHUNK_MESSAGES) if left is not None and self.selection.is_everything else _CHUNK_MESSAGES
