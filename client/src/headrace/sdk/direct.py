"""The blocking producer without a topic, and what it has in common with the one for asyncio."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self, TypeVar

import headrace_core as core
from headrace.sdk.calls import Name, check_name, encoded, found
from headrace.sdk.errors import HeadraceError, InvalidArgument, NotFound, native
from headrace.sdk.options import KEY_HEADER, DirectProducerOptions, key_bytes
from headrace.sdk.producer import KEY_WITHOUT_EFFECT, Headers, HeaderValue, header_dict, refused
from headrace.sdk.results import Deliveries, finished, value_of
from headrace.sdk.telemetry import Hooks, SentBatch
from headrace_core import Delivered, Pending, SessionConfig
from headrace_core import Deliveries as NativeDeliveries
from headrace_core import DirectProducer as NativeDirectProducer

Value = TypeVar("Value")
Steps = Generator[Pending, None, Value]
"""A call as its waits: each operation that it yields has to end before it goes on."""
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

    __slots__ = ("due_at", "partitions_count", "refresh", "turn")

    def __init__(self, partitions_count: int) -> None:
        self.partitions_count = partitions_count
        self.turn = 0
        self.due_at = time.monotonic() + _REFRESH_SECONDS
        self.refresh: Pending | None = None


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
        results: dict[Destination, Runs | HeadraceError] = {}
        waiting = iter(groups.items())
        running: deque[tuple[Destination, Steps[Runs], Pending]] = deque()

        def advance(destination: Destination, steps: Steps[Runs]) -> None:
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
                advance(group[0], self.send_to(*group, None, None, None))
            if not running:
                return {destination: results[destination] for destination in groups}
            destination, steps, pending = running.popleft()
            yield pending
            advance(destination, steps)

    def _partitions(self, destination: Destination) -> Steps[tuple[int, int]]:
        """Number of partitions, and the turn of messages that may go to any of them."""
        with self._lock:
            known = self._known.get(destination)
            if known is not None:
                self._known.move_to_end(destination)
                self._refresh(destination, known)
                known.turn += 1
                return known.partitions_count, known.turn
        # The first messages for this topic, or the first ones after a refusal.
        pending = self._look_up(destination)
        yield pending
        count = _partitions_count(destination, pending)
        with self._lock:
            self._known[destination] = _Known(count)
            if len(self._known) > _DESTINATIONS_MAX:
                self._known.popitem(last=False)
        return count, 0

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
            known.partitions_count = _partitions_count(destination, refresh)
        except HeadraceError:
            # The answer to the messages has the reason.
            return

    def _look_up(self, destination: Destination) -> Pending:
        stream, topic = destination
        return native(self.native.submit, *encoded(lambda: core.encode_get_topic(stream=stream, topic=topic)))

    def _forget(self, destination: Destination) -> None:
        with self._lock:
            self._known.pop(destination, None)


def _partitions_count(destination: Destination, answer: Pending) -> int:
    stream, topic = destination
    decode = found(core.decode_topic, f"topic {topic!r} in stream {stream!r}")
    count = decode(value_of(answer)).partitions_count
    if count == 0:
        raise NotFound(f"topic {topic!r} in stream {stream!r} has no partitions", retryable=False)
    return count


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


class DirectProducer:
    """Sends messages to any topic at once, and waits until the server has them. It may be used by many threads.

    One connection serves all topics, and nothing is buffered and nothing is sent again: a message that `send_to` has
    returned is stored, and what to do about another is the caller's decision. For sending in the background there is
    `Producer`, which has a topic.

    Examples:
        >>> with client.direct_producer() as producer:
        ...     runs = producer.send_to("shop", "orders", [b"1", b"2"], key="customer-7")
        >>> [(place.offset, count) for place, count in runs]
        [(0, 2)]
    """

    def __init__(
        self,
        config: SessionConfig,
        options: DirectProducerOptions,
        *,
        hooks: Hooks | None = None,
        open_timeout: float | None = None,
    ) -> None:
        """Connect; `Client.direct_producer` is the usual way."""
        self._steps = DirectSteps(config, options, hooks)
        finished(native(self._steps.native.opened), open_timeout)

    def send_to(
        self,
        stream: Name,
        topic: Name,
        messages: Messages,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Runs:
        """Send messages to a topic, and wait until the server has them.

        Messages of one partition keep their order. Without key and partition, calls take turns over the partitions.
        Messages beyond `batch_bytes` are sent when those before them are stored.

        Args:
            stream: The stream.
            topic: The topic.
            messages: A payload, several payloads, or `Outgoing` with properties of their own.
            key: As of `Producer.send`, for all payloads.
            partition: As of `Producer.send`, for all payloads.
            headers: As of `Producer.send`, for all payloads.

        Returns:
            For each run of messages with consecutive offsets, its first place and its length.

        Raises:
            NotFound: The stream or the topic does not exist.
            RequestRefused: The server refused messages; they are not stored.
            DeadlineExceeded: Not sent within `delivery_timeout`; they are not stored.
            OutcomeUnknown: Messages may be stored.
            InvalidArgument: A message cannot be sent.

        After an exception, other messages of the same call may be stored: those of other partitions, and those before.

        Examples:
            >>> from headrace import Outgoing
            >>> with client.direct_producer() as producer:
            ...     orders = [Outgoing(b"tea", key="anna"), Outgoing(b"milk", partition=0, headers={"cold": True})]
            ...     sum(count for _, count in producer.send_to("shop", "orders", orders))
            2
        """
        return run_steps(self._steps.send_to((stream, topic), messages, key, partition, headers))

    def send_groups(self, groups: Mapping[Destination, Messages]) -> dict[Destination, Runs | HeadraceError]:
        """Send messages to several topics, to `max_concurrent_destinations` of them at a time.

        Args:
            groups: Messages as of `send_to`, by stream and topic.

        Returns:
            For each stream and topic what `send_to` would return or raise: a failure affects no other topic.

        Examples:
            >>> with client.direct_producer() as producer:
            ...     results = producer.send_groups({("shop", "orders"): [b"tea"], ("shop", "missing"): [b"milk"]})
            >>> [type(result).__name__ for result in results.values()]
            ['list', 'NotFound']
        """
        return run_steps(self._steps.send_groups(groups))

    def close(self) -> None:
        """Close the connection. Calls of other threads that wait fail."""
        self._steps.native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:
        # Type checkers find these calls by themselves.

        def send(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            bound_only("send")

        def send_many(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            bound_only("send_many")


def run_steps(steps: Steps[Value]) -> Value:
    """Wait for each step, and return the result."""
    try:
        while True:
            native(next(steps).wait)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # the value of these steps
