"""Sending to any topic, in steps that do not depend on how their caller waits."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import headrace_core as core
from headrace.sdk.calls import Name, check_name, encoded, found
from headrace.sdk.errors import HeadraceError, InvalidArgument, NotFound, native
from headrace.sdk.options import KEY_HEADER, DirectProducerOptions, key_bytes
from headrace.sdk.pushing import KEY_WITHOUT_EFFECT, Headers, HeaderValue, header_dict, refused
from headrace.sdk.results import Deliveries, value_of
from headrace.sdk.stages import Incarnations, Stage, Step, Steps
from headrace.sdk.telemetry import Hooks, SentBatch
from headrace_core import Delivered, Pending, SessionConfig
from headrace_core import Deliveries as NativeDeliveries
from headrace_core import DirectProducer as NativeDirectProducer
from headrace_proto.limits import STAGE_LIFETIME_SECONDS_MAX

Value = TypeVar("Value")
Destination = tuple[Name, Name]
"""Stream and topic."""
Runs = list[tuple[Delivered, int]]
"""Places of messages: the first of each run of consecutive offsets, and the length of the run."""

_DESTINATIONS_MAX: Final = 4096
_REFRESH_SECONDS: Final = 2.0


class Outgoing(NamedTuple):
    """A message with properties of its own, for `DirectProducer.send_to`.

    Examples:
        >>> Outgoing(b"one book", key="customer-7").headers is None
        True
    """

    payload: bytes
    key: bytes | str | None = None
    """Messages with the same key go to the same partition, in their order."""
    partition: int | None = None
    """Id of the partition, in place of the one that the key selects."""
    headers: dict[str, HeaderValue] | bytes | None = None
    """User headers; as bytes, encoded as in `Message.user_headers`, for messages that are passed on."""
    message_id: int = 0
    """Number of 128 bits; 0: the server draws one."""


_Push = Callable[[int, int, int], tuple[int, NativeDeliveries]]
"""Sends messages from a number on, with the number of partitions and the turn; returns their number and results."""
Messages = bytes | Outgoing | Iterable[bytes] | Iterable[Outgoing]


class _Known:
    """Knowledge of a destination."""

    __slots__ = ("due_at", "incarnations", "refresh", "topic", "turn")

    def __init__(self, topic: core.Topic) -> None:
        self.topic = topic
        # Of the partitions, as far as stages needed them.
        self.incarnations: list[int] = []
        self.turn = 0
        self.due_at = time.monotonic() + _REFRESH_SECONDS
        self.refresh: Pending | None = None

    def become(self, topic: core.Topic) -> None:
        """Take what a new look-up has found."""
        if _origin(topic) != _origin(self.topic):
            self.incarnations = []
        self.topic = topic


class DirectSteps:
    """Sends to any topic; its calls are steps, so that they do not depend on how their caller waits."""

    def __init__(self, config: SessionConfig, options: DirectProducerOptions, hooks: Hooks | None = None) -> None:
        """Begin to connect."""
        self._hooks = hooks
        self.options = options
        self.native = NativeDirectProducer(
            config,
            batch_bytes=options.batch_bytes,
            delivery_timeout=options.delivery_timeout,
            stores_key=options.store_key,
        )
        self._config = config
        self._lock = threading.Lock()
        self._known: OrderedDict[Destination, _Known] = OrderedDict()

    def send_to(
        self,
        destination: Destination,
        messages: Messages,
        key: bytes | str | None,
        partition: int | None,
        headers: Headers | None,
    ) -> Steps[Runs]:
        """Steps of `DirectProducer.send_to`."""
        for what, name in zip(("stream", "topic"), destination, strict=True):
            check_name(what, name)
        waiting: list[Any] = [messages] if isinstance(messages, bytes | Outgoing) else list(messages)
        added = self._hooks.headers(*destination, None) if self._hooks is not None and waiting else None
        if waiting and isinstance(waiting[0], Outgoing):
            _check_outgoing(waiting, {"partition": partition, "key": key, "headers": headers})
            if added:
                waiting = [_with_headers(message, added) for message in waiting]
            push = self._push_each(destination, waiting)
        else:
            if key is not None and partition is not None and not self.options.store_key:
                raise InvalidArgument(KEY_WITHOUT_EFFECT)
            headers = {**added, **(headers or {})} if added else headers
            push = self._push_many(destination, waiting, partition, key_bytes(key), header_dict(headers))
        runs: Runs = []
        start = 0
        while start < len(waiting):
            partitions_count, turn = yield from self._partitions(destination)
            taken, part = push(start, partitions_count, turn)
            began = time.monotonic()
            yield native(part.pending)
            try:
                stored = Deliveries([part]).result(0)
            except HeadraceError as error:
                # The topic may have changed.
                self._forget(destination)
                self._report(destination, None, taken, began, str(error))
                raise
            for place, count in stored:
                self._report(destination, place.partition_id, count, began, None)
            runs += stored
            start += taken
        return runs

    def _report(
        self, destination: Destination, partition: int | None, messages: int, began: float, error: str | None
    ) -> None:
        if self._hooks is not None:
            seconds = time.monotonic() - began
            self._hooks.sent(SentBatch(*destination, partition, messages, 0, seconds, error))

    def _push_many(
        self,
        destination: Destination,
        payloads: list[bytes],
        partition: int | None,
        key: bytes | None,
        headers: dict[str, HeaderValue] | None,
    ) -> _Push:
        def push(start: int, partitions_count: int, turn: int) -> tuple[int, NativeDeliveries]:
            try:
                return native(
                    self.native.push_many,
                    *destination,
                    payloads,
                    start,
                    partitions_count=partitions_count,
                    turn=turn,
                    partition=partition,
                    key=key,
                    headers=headers,
                )
            except (OverflowError, TypeError, ValueError) as error:
                raise refused(error, payloads, partition, 0) from None

        return push

    def _push_each(self, destination: Destination, messages: list[Outgoing]) -> _Push:
        def push(start: int, partitions_count: int, turn: int) -> tuple[int, NativeDeliveries]:
            try:
                return native(
                    self.native.push_each, *destination, messages, start, partitions_count=partitions_count, turn=turn
                )
            except (OverflowError, TypeError, ValueError) as error:
                raise refused(error, [message.payload for message in messages], None, 0) from None

        return push

    def send_groups(self, groups: Mapping[Destination, Messages]) -> Steps[dict[Destination, Runs | HeadraceError]]:
        """Steps of `DirectProducer.send_groups`."""
        return self._concurrently(groups, lambda name, messages: self.send_to(name, messages, None, None, None))

    def _concurrently(
        self, groups: Mapping[Destination, Messages], begin: Callable[[Destination, Messages], Steps[Value]]
    ) -> Steps[dict[Destination, Value | HeadraceError]]:
        results: dict[Destination, Value | HeadraceError] = {}
        waiting = iter(groups.items())
        running: deque[tuple[Destination, Steps[Value], Step]] = deque()

        def advance(destination: Destination, steps: Steps[Value]) -> None:
            try:
                running.append((destination, steps, next(steps)))
            except StopIteration as end:
                results[destination] = end.value
            except HeadraceError as error:
                results[destination] = error

        while True:
            while len(running) < self.options.max_concurrent_destinations:
                group = next(waiting, None)
                if group is None:
                    break
                advance(group[0], begin(*group))
            if not running:
                return {destination: results[destination] for destination in groups}
            destination, steps, step = running.popleft()
            yield step
            advance(destination, steps)

    def stage_groups(
        self, groups: Mapping[Destination, Messages], lifetime: timedelta | None
    ) -> Steps[dict[Destination, list[Stage] | HeadraceError]]:
        """Steps of `DirectProducer.stage_groups`."""
        lifetime_seconds = _lifetime_seconds(lifetime)
        incarnations = Incarnations(self._config)
        try:
            return (
                yield from self._concurrently(
                    groups, lambda name, messages: self._stage(name, messages, lifetime_seconds, incarnations)
                )
            )
        finally:
            incarnations.close()

    def stage(self, destination: Destination, messages: Messages, lifetime: timedelta | None) -> Steps[list[Stage]]:
        """Steps of `DirectProducer.stage`."""
        incarnations = Incarnations(self._config)
        try:
            return (yield from self._stage(destination, messages, _lifetime_seconds(lifetime), incarnations))
        finally:
            incarnations.close()

    def _stage(
        self, destination: Destination, messages: Messages, lifetime_seconds: int, incarnations: Incarnations
    ) -> Steps[list[Stage]]:
        for what, name in zip(("stream", "topic"), destination, strict=True):
            check_name(what, name)
        waiting = _outgoing(messages)
        if self._hooks is not None and waiting and (added := self._hooks.headers(*destination, None)):
            waiting = [_with_headers(message, added) for message in waiting]
        stages: list[Stage] = []
        start = 0
        try:
            while start < len(waiting):
                known, turn = yield from self._known_topic(destination)
                yield from self._identify(destination, known, incarnations)
                topic, numbers = known.topic, known.incarnations
                try:
                    taken, requests = native(
                        self.native.stage_each,
                        *destination,
                        waiting,
                        start,
                        partitions_count=len(numbers),
                        turn=turn,
                        lifetime_seconds=lifetime_seconds,
                    )
                except (OverflowError, TypeError, ValueError) as error:
                    raise refused(error, [message.payload for message in waiting], None, 0) from None
                for partition, count, pending in requests:
                    yield pending
                    staged = core.decode_staged_messages(value_of(pending))
                    stages.append(Stage(topic.id, partition, numbers[partition], staged.stage, count))
                start += taken
        except HeadraceError:
            # The topic may have changed.
            self._forget(destination)
            raise
        return stages

    def _identify(self, destination: Destination, known: _Known, incarnations: Incarnations) -> Steps[None]:
        while len(known.incarnations) != known.topic.partitions_count:
            topic = known.topic
            numbers = yield from incarnations.find(
                *destination, topic.id, range(topic.partitions_count), self.options.delivery_timeout
            )
            # A look-up of another call may have found another topic meanwhile.
            if known.topic is topic:
                known.incarnations = numbers

    def _partitions(self, destination: Destination) -> Steps[tuple[int, int]]:
        """Number of partitions, and the turn of messages that may go to any of them."""
        known, turn = yield from self._known_topic(destination)
        return known.topic.partitions_count, turn

    def _known_topic(self, destination: Destination) -> Steps[tuple[_Known, int]]:
        with self._lock:
            known = self._known.get(destination)
            if known is not None:
                self._known.move_to_end(destination)
                self._refresh(destination, known)
                known.turn += 1
                return known, known.turn
        # The first messages for this topic, or the first ones after a refusal.
        pending = self._look_up(destination)
        yield pending
        known = _Known(_topic_of(destination, pending))
        with self._lock:
            self._known[destination] = known
            if len(self._known) > _DESTINATIONS_MAX:
                self._known.popitem(last=False)
        return known, 0

    def _refresh(self, destination: Destination, known: _Known) -> None:
        """Look from time to time whether partitions were added, without waiting for it."""
        if known.refresh is None:
            if time.monotonic() >= known.due_at:
                known.refresh = self._look_up(destination)
            return
        if not native(known.refresh.done):
            return
        refresh, known.refresh = known.refresh, None
        known.due_at = time.monotonic() + _REFRESH_SECONDS
        try:
            known.become(_topic_of(destination, refresh))
        except HeadraceError:
            # The answer to the messages has the reason.
            return

    def _look_up(self, destination: Destination) -> Pending:
        stream, topic = destination
        return native(self.native.submit, *encoded(lambda: core.encode_get_topic(stream=stream, topic=topic)))

    def _forget(self, destination: Destination) -> None:
        with self._lock:
            self._known.pop(destination, None)


def _origin(topic: core.Topic) -> tuple[int, int, list[int]]:
    """Topic and partitions as they were made: a partition that is made anew has the number of the one before."""
    return topic.id, topic.created_at_micros, [partition.created_at_micros for partition in topic.partitions]


def _topic_of(destination: Destination, answer: Pending) -> core.Topic:
    stream, topic = destination
    decode = found(core.decode_topic, f"topic {topic!r} in stream {stream!r}")
    known = decode(value_of(answer))
    if known.partitions_count == 0:
        raise NotFound(f"topic {topic!r} in stream {stream!r} has no partitions", retryable=False)
    return known


def _lifetime_seconds(lifetime: timedelta | None) -> int:
    if lifetime is None:
        return 0
    seconds = lifetime.days * 86_400 + lifetime.seconds
    if seconds < 1 or seconds > STAGE_LIFETIME_SECONDS_MAX:
        raise InvalidArgument(f"lifetime: {lifetime} is not between a second and a week")
    return seconds


def _outgoing(messages: Messages) -> list[Outgoing]:
    waiting: list[Any] = [messages] if isinstance(messages, bytes | Outgoing) else list(messages)
    if waiting and isinstance(waiting[0], Outgoing):
        _check_outgoing(waiting, {})
        return waiting
    return [Outgoing(payload) for payload in waiting]


def _check_outgoing(messages: list[Any], shared: Mapping[str, object]) -> None:
    given = [name for name, value in shared.items() if value is not None]
    if given:
        raise InvalidArgument(f"{given[0]}: the messages are `Outgoing`; give it with each of them")
    for message in messages:
        if not isinstance(message, Outgoing):
            raise InvalidArgument(f"messages: a {type(message).__name__} is among `Outgoing`; give all as `Outgoing`")
        if isinstance(message.headers, dict) and KEY_HEADER in message.headers:
            raise InvalidArgument(f"headers[{KEY_HEADER!r}]: this header holds the key; give it as `key`")
        key_bytes(message.key)


def _with_headers(message: Outgoing, added: Mapping[str, Any]) -> Outgoing:
    if isinstance(message.headers, bytes):
        # A message that is passed on as it is.
        return message
    return message._replace(headers={**added, **(message.headers or {})})


def bound_only(name: str) -> NoReturn:
    """Refuse a call that needs a topic."""
    raise InvalidArgument(
        f"{name}: this producer has no topic; use send_to(stream, topic, messages), or client.producer(stream, topic)"
    )
