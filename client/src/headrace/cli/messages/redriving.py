"""Dead letters on their way back to where they came from, or to another topic."""

from __future__ import annotations

import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.cli.errors import CommandError
from headrace.cli.messages.redrive_ledger import Intent, Ledger, client_of, generations, has_transactions
from headrace.cli.servers.resolving import Identifier, TopicPath, find_topic
from headrace.cli.servers.target import Target
from headrace.sdk.client import Client as Transactions
from headrace.sdk.dead_letters import HEADERS, PREFIX
from headrace.sdk.direct import Outgoing
from headrace.sdk.direct_producer import DirectProducer
from headrace.sdk.errors import NotFound
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
_LEAVING_SECONDS: Final = 1.0
"""Time for the server to notice that the connection of an earlier run has ended, as after a kill."""
_LEAVING_POLL_SECONDS: Final = 0.02


class RedriveRoute(NamedTuple):
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
    sent: Counter[RedriveRoute] = field(default_factory=Counter)
    kept: Counter[RedriveRoute] = field(default_factory=Counter)
    """Letters that do not match, or cannot be sent; those between others are appended to the topic again."""


@dataclass(slots=True)
class Redrive:
    """A redrive of a dead-letter topic.

    The offset of the group is stored when the letters before it are acknowledged at their destinations, and those that
    stay are at the end of the topic again. With transactions of the server, each letter is sent once, whatever is
    killed. A server without them gets the letters of a batch that was cut off again, with the same ids.
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
            positions = self._positions(client, path)
            for partition in path.partitions(None):
                self._look(client, path, partition, positions[partition], plan)
            for route in plan.sent:
                self._destination(client, path, route)
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
            if has_transactions(client):
                self._run_once(client, path, plan, on_progress)
                return
            group = self._joined(client, path)
            sent = 0
            for part in plan.parts:
                for messages in _read(client, path, part.partition, part.start, part.end):
                    sent += self._send(client, path, messages, part.partition)
                    last = messages[-1].offset
                    client.store_offset(path.stream, path.topic, part.partition, last, group=group.id)
                    on_progress(sent)

    # ---- each letter once

    def _run_once(self, client: Client, path: TopicPath, plan: Plan, on_progress: Callable[[int], None]) -> None:
        sent = 0
        with client_of(self.target) as transactions, transactions.direct_producer(store_key=False) as producer:
            ledgers = self._ledgers(transactions, client, path)
            if client.group(path.stream, path.topic, self.group) is None:
                # Without the group, everything is to be sent again.
                for ledger in ledgers.values():
                    ledger.reset()
            group = self._joined(client, path)
            for part in plan.parts:
                ledger = ledgers[part.partition]
                position = ledger.take_over(part.start)
                # A run that was cut off may have begun a batch: it is ended as it was begun.
                intent = ledger.intent()
                while intent := intent or self._intent(client, path, part, position):
                    if intent.end > position:
                        read = _read(client, path, part.partition, max(intent.start, position), intent.end)
                        letters = [message for messages in read for message in messages]
                        if (other := _sent_once(ledger, producer, intent, path, letters)) is not None:
                            intent = other
                            continue
                        sent += len(intent.ways)
                        position = intent.end
                    if ledger.is_foreign(intent):
                        ledger.forget_intent()
                    client.store_offset(path.stream, path.topic, part.partition, position - 1, group=group.id)
                    on_progress(sent)
                    intent = None

    def _ledgers(self, transactions: Transactions, client: Client, path: TopicPath) -> dict[int, Ledger]:
        found = generations(self.target, path, path.partitions(None))
        return {
            partition: Ledger(transactions, client, path, partition, generation)
            for partition, generation in found.items()
        }

    def _intent(self, client: Client, path: TopicPath, part: Part, position: int) -> Intent | None:
        """Return the next batch; None: there are no more letters."""
        messages = next(_read(client, path, part.partition, position, part.end), None)
        if messages is None:
            return None
        destinations: list[tuple[Identifier, Identifier]] = []
        ways: dict[int, int] = {}
        for message in messages:
            route = self._route(message)
            if route.stream is not None:
                to = self._destination(client, path, route)
                if (to.stream, to.topic) not in destinations:
                    destinations.append((to.stream, to.topic))
                ways[message.offset] = destinations.index((to.stream, to.topic))
        return Intent(uuid.uuid4().hex, position, messages[-1].offset + 1, destinations, ways)

    # ---- parts of both ways

    def _found(self, client: Client) -> TopicPath:
        path = find_topic(client, self.stream, self.topic)
        path.readable()
        return path

    def _joined(self, client: Client, path: TopicPath) -> ConsumerGroup:
        place = path.stream, path.topic, self.group
        deadline = time.monotonic() + _LEAVING_SECONDS
        while (group := client.group(*place) or client.create_group(*place)).members_count:
            if time.monotonic() >= deadline:
                raise CommandError(
                    f"another redrive of {path.name} is at work, as a member of the group {self.group!r}"
                )
            time.sleep(_LEAVING_POLL_SECONDS)
        client.join_group(path.stream, path.topic, group.id)
        return group

    def _positions(self, client: Client, path: TopicPath) -> dict[int, int]:
        """Return the offset to continue at by partition."""
        partitions = path.partitions(None)
        if client.group(path.stream, path.topic, self.group) is None:
            return dict.fromkeys(partitions, 0)
        if has_transactions(client):
            # Every reader of the topic may join the group and store another offset: it only shows the position.
            with client_of(self.target) as transactions:
                ledgers = self._ledgers(transactions, client, path)
                return {partition: ledger.position() for partition, ledger in ledgers.items()}
        found = {}
        for partition in partitions:
            stored = client.offset(path.stream, path.topic, partition, group=self.group)
            found[partition] = stored.stored_offset + 1 if stored is not None else 0
        return found

    def _look(self, client: Client, path: TopicPath, partition: int, start: int, plan: Plan) -> None:
        last = client.poll(path.stream, path.topic, partition, strategy="last", count=1).messages
        end = last[0].offset + 1 if last else 0
        part = Part(partition, start, start)
        kept: Counter[RedriveRoute] = Counter()
        for messages in _read(client, path, partition, start, end):
            for message in messages:
                if self.count is not None and plan.sent.total() >= self.count:
                    break
                route = self._route(message)
                if route.stream is None:
                    kept[route] += 1
                else:
                    plan.sent[route] += 1
                    part.end = message.offset + 1
        plan.kept.update(kept)
        if part.end > part.start:
            plan.parts.append(part)

    def _route(self, message: Message) -> RedriveRoute:
        headers = message.headers or {}
        reason = str(headers.get(f"{PREFIX}reason", ""))
        stream, topic = self.to or (headers.get(f"{PREFIX}stream"), headers.get(f"{PREFIX}topic"))
        if message.headers is None or stream is None or topic is None:
            return RedriveRoute(reason or "its headers do not say where it came from", None, None)
        if self.to is None and HEADERS in headers:
            # The message had headers that its readers may need.
            return RedriveRoute(f"its headers are not in the letter: {headers[HEADERS]}", None, None)
        if self.reason is not None and not self.reason.search(reason):
            return RedriveRoute(reason, None, None)
        return RedriveRoute(reason, str(stream), str(topic))

    def _destination(self, client: Client, path: TopicPath, route: RedriveRoute) -> TopicPath:
        names = (route.stream or "", route.topic or "")
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
            route = self._route(message)
            if route.stream is None:
                kept = groups.setdefault((path.stream, path.topic, None, True), [])
                kept.append((message.id, message.payload, message.user_headers))
            else:
                to = self._destination(client, path, route)
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


def _sent_once(
    ledger: Ledger, producer: DirectProducer, intent: Intent, path: TopicPath, letters: Sequence[Message]
) -> Intent | None:
    """Send a batch; return the one that another run has begun, if there is one: it comes first."""
    gone, sent = set(), set()
    for stream in {stream for stream, _ in intent.destinations} - {path.stream}:
        try:
            if ledger.is_sent(intent, stream):
                sent.add(stream)
        except NotFound:
            # Deleted since the batch was begun: its letters stay.
            gone.add(stream)
    groups: dict[tuple[Identifier, Identifier], list[Outgoing]] = {}
    for message in letters:
        route = intent.ways.get(message.offset)
        to = None if route is None else intent.destinations[route]
        if to is None or to[0] in gone:
            letter = Outgoing(message.payload, None, ledger.partition, message.user_headers, message.id)
            groups.setdefault((path.stream, path.topic), []).append(letter)
        elif to[0] not in sent:
            letter = Outgoing(message.payload, message.key, None, _without_reason(message), message.id)
            groups.setdefault(to, []).append(letter)
    staged = ledger.stage(producer, groups)
    if ledger.is_foreign(intent):
        begun = ledger.begin(intent)
        if begun.batch != intent.batch:
            ledger.discard(staged)
            return begun
    own = staged.pop(path.stream, [])
    for stream, stages in staged.items():
        ledger.commit_foreign(intent, stream, stages)
    ledger.commit(intent.end, own)
    return None


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
