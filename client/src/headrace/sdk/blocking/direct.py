"""Sending to any topic at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Self

from headrace.sdk.blocking.waiting import finished, run_steps
from headrace.sdk.calls import Name
from headrace.sdk.direct import Destination, DirectSteps, Messages, Runs
from headrace.sdk.errors import HeadraceError, native
from headrace.sdk.options import DirectProducerOptions
from headrace.sdk.pushing import Headers
from headrace.sdk.stages import Stage
from headrace.sdk.telemetry import Hooks
from headrace_core import SessionConfig


class DirectCalls:
    """A producer without a topic, but for its end."""

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
        self._ensure_open(open_timeout)

    def _ensure_open(self, timeout: float | None = None) -> Self:
        finished(native(self._steps.native.opened), timeout)
        return self

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

    def stage(self, stream: Name, topic: Name, messages: Messages, *, lifetime: timedelta | None = None) -> list[Stage]:
        """Store messages of a topic in stages, where no reader sees them until `Client.commit_transaction`.

        A stage is on the disk of its server when this returns. One that is not committed is removed when its lifetime
        is over, or by `Client.abort_transaction`.

        Args:
            stream: The stream.
            topic: The topic.
            messages: As of `send_to`.
            lifetime: Time within which stages can be committed, a week at most; None: a day.

        Returns:
            The stages. Those of one partition are in the order of its messages, and are committed in this order.

        Raises:
            NotFound: The stream or the topic does not exist.
            RequestRefused: The server refused messages. The user needs the permissions to send and to poll.
            DeadlineExceeded: Not sent within `delivery_timeout`.
            OutcomeUnknown: A stage may be stored, and expires.
            InvalidArgument: A message cannot be sent.

        Examples:
            >>> with client.direct_producer() as producer:
            ...     stages = producer.stage("shop", "orders", [b"tea", b"milk"])
            ...     done = client.commit_transaction("shop", "import", "run-1", 1, stages)
            >>> done.already_committed
            False
        """
        return run_steps(self._steps.stage((stream, topic), messages, lifetime))

    def stage_groups(
        self, groups: Mapping[Destination, Messages], *, lifetime: timedelta | None = None
    ) -> dict[Destination, list[Stage] | HeadraceError]:
        """Store messages of several topics in stages, `max_concurrent_destinations` of them at a time.

        Args:
            groups: Messages as of `send_to`, by stream and topic.
            lifetime: As of `stage`.

        Returns:
            For each stream and topic what `stage` would return or raise.

        Examples:
            >>> with client.direct_producer() as producer:
            ...     staged = producer.stage_groups({("shop", "orders"): [b"tea"], ("shop", "missing"): [b"milk"]})
            >>> [type(result).__name__ for result in staged.values()]
            ['list', 'NotFound']
        """
        return run_steps(self._steps.stage_groups(groups, lifetime))

    def close(self) -> None:
        """Close the connection. Other calls that wait fail."""
        self._steps.native.close()
