"""Dead letters on their way back to where they came from, or to another topic."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.cli.errors import CommandError
from headrace.cli.servers.resolving import TopicPath, find_topic
from headrace.cli.servers.target import Target
from headrace.sdk.dead_letters import PREFIX
from headrace_core import (
    Client,
    ConsumerGroup,
    Message,
    ServerError,
    decode_user_headers,
    encode_send_messages,
    encode_user_headers,
)

GROUP: Final = "headrace-redrive"
"""Consumer group whose stored offsets say which letters were redriven."""
_CHUNK_MESSAGES: Final = 500


class Way(NamedTuple):
    """Reason of letters, and the topic that they go to; None: they stay."""

    reason: str
    stream: str | None
    topic: str | None


@dataclass(slots=True)
class Part:
    """Letters of one partition."""

    partition: int
    start: int
    """Offset of the first letter that was not redriven."""
    end: int
    """Offset after the last letter that is to be sent."""


@dataclass(slots=True)
class Plan:
    """Letters that are to be sent, and those between them that stay."""

    parts: list[Part] = field(default_factory=list)
    sent: Counter[Way] = field(default_factory=Counter)
    kept: Counter[Way] = field(default_factory=Counter)
    """Letters that do not match, or cannot be sent; those between others are appended to the topic again."""


@dataclass(slots=True)
class Redrive:
    """A redrive of a dead-letter topic.

    The offset of the group is stored when the letters before it are acknowledged at their destinations, and those that
    stay are at the end of the topic again. A letter that is sent twice because of a kill has the same id both times.
    """

    target: Target
    stream: str
    topic: str
    to: tuple[str, str] | None
    """Stream and topic in place of those that the letters came from."""
    reason: re.Pattern[str] | None
    """Expression that the reasons of letters match; None: all letters."""
    count: int | None
    """Maximum number of letters; None: all."""
    group: str = GROUP
    _destinations: dict[tuple[str, str], TopicPath] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Look at the letters; nothing is sent or stored.

        Raises:
            CommandError: The topic does not exist, or cannot be read.
        """
        with self.target.connected() as client:
            path = self._found(client)
            plan = Plan()
            for partition in path.partitions(None):
                self._look(client, path, partition, plan)
            for way in plan.sent:
                self._destination(client, path, way)
        return plan

    def run(self, plan: Plan, on_progress: Callable[[int], None]) -> None:
        """Send the letters of a plan.

        Args:
            plan: The plan.
            on_progress: Called with the number of letters sent so far, after each that is stored.

        Raises:
            CommandError: Another redrive is at work, or a destination refuses messages.
        """
        with self.target.connected() as client:
            path = self._found(client)
            group = self._joined(client, path)
            sent = 0
            for part in plan.parts:
                for messages in _read(client, path, part.partition, part.start, part.end):
                    sent += self._send(client, path, messages, part.partition)
                    last = messages[-1].offset
                    client.store_offset(path.stream, path.topic, part.partition, last, group=group.id)
                    on_progress(sent)

    def _found(self, client: Client) -> TopicPath:
        path = find_topic(client, self.stream, self.topic)
        if path.details is None:
            raise CommandError(f"this user may not read {path.name}: it needs the permission read_topic")
        return path

    def _joined(self, client: Client, path: TopicPath) -> ConsumerGroup:
        group = client.group(path.stream, path.topic, self.group)
        if group is None:
            group = client.create_group(path.stream, path.topic, self.group)
        if group.members_count:
            raise CommandError(f"another redrive of {path.name} is at work, as a member of the group {self.group!r}")
        client.join_group(path.stream, path.topic, group.id)
        return group

    def _look(self, client: Client, path: TopicPath, partition: int, plan: Plan) -> None:
        stored = None
        if client.group(path.stream, path.topic, self.group) is not None:
            stored = client.offset(path.stream, path.topic, partition, group=self.group)
        last = client.poll(path.stream, path.topic, partition, strategy="last", count=1).messages
        start, end = stored.stored_offset + 1 if stored is not None else 0, last[0].offset + 1 if last else 0
        part = Part(partition, start, start)
        kept: Counter[Way] = Counter()
        for messages in _read(client, path, partition, start, end):
            for message in messages:
                if self.count is not None and plan.sent.total() >= self.count:
                    break
                way = self._way(message)
                if way.stream is None:
                    kept[way] += 1
                else:
                    plan.sent[way] += 1
                    part.end = message.offset + 1
        plan.kept.update(kept)
        if part.end > part.start:
            plan.parts.append(part)

    def _way(self, message: Message) -> Way:
        headers = message.headers or {}
        reason = str(headers.get(f"{PREFIX}reason", ""))
        stream, topic = self.to or (headers.get(f"{PREFIX}stream"), headers.get(f"{PREFIX}topic"))
        if message.headers is None or stream is None or topic is None:
            return Way(reason or "its headers do not say where it came from", None, None)
        if self.reason is not None and not self.reason.search(reason):
            return Way(reason, None, None)
        return Way(reason, str(stream), str(topic))

    def _destination(self, client: Client, path: TopicPath, way: Way) -> TopicPath:
        names = (way.stream or "", way.topic or "")
        if names not in self._destinations:
            # Letters have names; the command line may have ids.
            given = names if self.to is not None else (f"name:{names[0]}", f"name:{names[1]}")
            found = find_topic(client, *given)
            if found.name == path.name:
                raise CommandError(f"{path.name} is the dead-letter topic itself: name another topic with --to")
            self._destinations[names] = found
        return self._destinations[names]

    def _send(self, client: Client, path: TopicPath, messages: Sequence[Message], partition: int) -> int:
        groups: dict[tuple[int | str, int | str, bytes | None, bool], list[tuple[int, bytes, bytes]]] = {}
        sent = 0
        for message in messages:
            way = self._way(message)
            if way.stream is None:
                kept = groups.setdefault((path.stream, path.topic, None, True), [])
                kept.append((message.id, message.payload, message.user_headers))
            else:
                to = self._destination(client, path, way)
                group = groups.setdefault((to.stream, to.topic, message.key, False), [])
                group.append((message.id, message.payload, _without_reason(message)))
                sent += 1
        for (stream, topic, key, is_kept), group in groups.items():
            command = encode_send_messages(
                group,
                stream=stream,
                topic=topic,
                partition=partition if is_kept else None,
                key=key,
                origin_timestamp_micros=time.time_ns() // 1000,
            )
            try:
                client.request(*command)
            except ServerError as error:
                raise CommandError(
                    f"{stream}/{topic} refuses letters: {error.name}; those that were sent count as redriven up to the "
                    "last batch, and the next run goes on there"
                ) from error
        return sent


def _read(client: Client, path: TopicPath, partition: int, start: int, end: int) -> Iterator[Sequence[Message]]:
    """Read messages from an offset up to but not including another."""
    while start < end:
        count = min(_CHUNK_MESSAGES, end - start)
        polled = client.poll(path.stream, path.topic, partition, strategy="offset", value=start, count=count)
        messages = [message for message in polled.messages if message.offset < end]
        if not messages:
            # Retention has removed them.
            return
        yield messages
        start = messages[-1].offset + 1


def _without_reason(message: Message) -> bytes:
    """Return the headers that the message had before it became a letter."""
    prefix = PREFIX.encode()
    pairs = decode_user_headers(message.user_headers) or []
    return encode_user_headers([pair for pair in pairs if not bytes(pair[0][1]).startswith(prefix)])
