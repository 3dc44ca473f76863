"""Hooks for metrics and traces: called by batch, never by message."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from headrace.sdk.calls import Name
from headrace.sdk.errors import native
from headrace_core import Reports

_LOG: Final = logging.getLogger("headrace")


class SentBatch(NamedTuple):
    """A batch that was sent, with its result.

    Examples:
        >>> batch = SentBatch("shop", "orders", 0, messages=100, size_bytes=16_400, seconds=0.006, error=None)
        >>> batch.messages / batch.seconds > 10_000
        True
    """

    stream: Name
    topic: Name
    partition_id: int | None
    """Partition in which it is stored; None if it failed."""
    messages: int
    size_bytes: int
    """Size of the messages, headers included; 0 if they were sent by `send_to`."""
    seconds: float
    """Time from its first message to the answer, waiting for more messages included."""
    error: str | None
    """Reason of the failure; None if it is stored."""


class ReadBatch(NamedTuple):
    """A batch that a consumer has handed out.

    Examples:
        >>> ReadBatch("shop", "orders", "billing", 0, messages=100, size_bytes=16_400, lag=25).lag
        25
    """

    stream: Name
    topic: Name
    group: Name | None
    """Group, or name, of the consumer."""
    partition_id: int
    messages: int
    size_bytes: int
    """Size of the messages, headers included."""
    lag: int
    """Number of messages in the partition behind this batch, when it was read."""


class Telemetry:
    """Hooks of a client, all of which do nothing: override those that you need.

    `headers` is called by the thread that sends, once for each call of `send`, `send_many` or `send_to`. `batch_read`
    is called by the thread that reads; `batch_sent` and `connection_changed` by threads of the client. So hooks have to
    be quick, and safe for threads. An exception of a hook is logged, and changes nothing else.

    Examples:
        >>> class Counts(headrace.Telemetry):
        ...     sent = 0
        ...     def batch_sent(self, batch):
        ...         self.sent += batch.messages
        >>> counts = Counts()
        >>> with headrace.connect(url, options=headrace.ClientOptions(telemetry=counts)) as client:
        ...     with client.producer("shop", "orders") as producer:
        ...         deliveries = producer.send_many([b"1", b"2", b"3"])
        >>> counts.sent
        3
    """

    def headers(self, stream: Name, topic: Name) -> Mapping[str, str] | None:
        """Return headers for messages that are sent now, for example the context of a trace; None: no others.

        Headers that the caller gives win.
        """
        del stream, topic
        return None

    def batch_sent(self, batch: SentBatch) -> None:
        """Take the result of a batch that was sent."""

    def batch_read(self, batch: ReadBatch) -> None:
        """Take a batch that a consumer hands out."""

    def connection_changed(self, change: Literal["opened", "lost", "failed"], reason: str) -> None:
        """Take a change of a connection: made, broken and to be made again, or ended for good."""


class Hooks:
    """Calls the hooks of one client."""

    def __init__(self, telemetry: Telemetry) -> None:
        """Begin to wait for reports of producers."""
        self._telemetry = telemetry
        self._topics: list[tuple[Name, Name]] = []
        """Topics of producers; the place of one is its number in reports."""
        self.reports = Reports()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def register(self, stream: Name, topic: Name) -> int:
        """Return the number of the producers of a topic in reports."""
        with self._lock:
            # A program that makes many producers has few topics.
            if (stream, topic) not in self._topics:
                self._topics.append((stream, topic))
            number = self._topics.index((stream, topic))
            if self._thread is None:
                self._thread = threading.Thread(target=self._pass_on, name="headrace-telemetry", daemon=True)
                self._thread.start()
        return number

    def headers(self, stream: Name, topic: Name, given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return headers for messages: those of the hook, and those that the caller gives."""
        added = self._called(self._telemetry.headers, stream, topic)
        return {**added, **(given or {})} if added else given

    def sent(self, batch: SentBatch) -> None:
        """Pass a result on."""
        self._called(self._telemetry.batch_sent, batch)

    def read(self, batch: ReadBatch) -> None:
        """Pass a batch on."""
        self._called(self._telemetry.batch_read, batch)

    def connection_changed(self, change: str, reason: str) -> None:
        """Pass a change on."""
        self._called(self._telemetry.connection_changed, change, reason)

    def close(self) -> None:
        """Pass on what has been reported so far, and end the thread."""
        self.reports.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _pass_on(self) -> None:
        # A thread of its own: neither the thread that sends nor that of the network waits for hooks.
        while True:
            native(self.reports.wait().wait)
            taken = self.reports.take()
            if taken is None:
                return
            reports, dropped = taken
            if dropped:
                _LOG.warning("telemetry is too slow: the results of %d batches were not reported", dropped)
            for number, partition, messages, size_bytes, seconds, failure in reports:
                self.sent(SentBatch(*self._topics[number], partition, messages, size_bytes, seconds, failure))

    @staticmethod
    def _called(hook: Callable[..., Any], *arguments: object) -> Any:
        try:
            return hook(*arguments)
        except Exception:  # noqa: BLE001 - the code of others, which must not end a delivery
            _LOG.exception("a hook of the telemetry has failed")
            return None


def hooks_of(telemetry: Telemetry | None) -> Hooks | None:
    """Return what calls the hooks, if there are any."""
    return None if telemetry is None else Hooks(telemetry)
