"""Stages: messages that are stored, and invisible until a transaction commits them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import headrace_core as core
from headrace.sdk.calls import Name, encoded
from headrace.sdk.errors import RequestRefused, native
from headrace.sdk.results import value_of
from headrace_core import Pending, Requester, SessionConfig

Value = TypeVar("Value")
Step = Pending | float
"""A wait: for an operation, or for a number of seconds."""
Steps = Generator[Step, None, Value]
"""A call as its waits, so that it does not depend on how its caller waits."""

_PAUSE_SECONDS: Final = 0.001
_PAUSE_SECONDS_MAX: Final = 0.1


class Stage(NamedTuple):
    """Messages of one partition that are stored, and invisible until `commit_transaction` commits them.

    A stage can be kept as JSON, and be committed by another process.
    """

    topic_id: int
    """Number of the topic."""
    partition_id: int
    incarnation: int
    """Number of the partition that is never reused: a stage of an earlier partition with these ids is refused."""
    stage_id: int
    """Number of 128 bits; the upper half is the time at which it expires, in microseconds since the Unix epoch."""
    messages_count: int


def references(stages: Iterable[Stage]) -> list[tuple[int, int, int, int]]:
    """Return stages as commands name them."""
    return [stage[:4] for stage in stages]


class Incarnations:
    """Looks up which partitions the partitions of a stream are, over connections that it closes at the end.

    Partitions are watched for this: their nodes report themselves. So the incarnation of a partition is known before
    messages are staged in it, and a stage is never taken for one of a newer partition.
    """

    def __init__(self, config: SessionConfig) -> None:
        self._config = config
        self._requesters: dict[Name, Requester] = {}
        self._reported: dict[Name, dict[tuple[int, int], int]] = {}

    def find(
        self, stream: Name, topic: Name, topic_id: int, partitions: Sequence[int], timeout: float
    ) -> Steps[list[int]]:
        """Steps that return the incarnations of partitions.

        Raises:
            RequestRefused: The user may not poll the topic, or a partition is not served now.
            NotFound: The topic or a partition does not exist any more.
        """
        requester = self._requesters.get(stream)
        if requester is None:
            requester = self._requesters[stream] = Requester(self._config)
        reported = self._reported.setdefault(stream, {})
        watch = encoded(lambda: core.encode_watch_partitions(topics=[(stream, topic, list(partitions))]))
        # A server reports partitions at once, if it serves them already. The answer to a ping comes after that.
        ping = core.encode_ping()
        deadline = time.monotonic() + timeout
        pause = 0.0
        command = watch
        while time.monotonic() < deadline:
            pending = native(requester.submit, *command, timeout_seconds=timeout)
            yield pending
            value_of(pending)
            for payload in native(requester.take_notifications):
                for one in core.decode_watched_partitions(payload):
                    if one.status == 0:
                        reported[one.topic_id, one.partition_id] = one.incarnation
            if all((topic_id, one) in reported for one in partitions):
                return [reported[topic_id, one] for one in partitions]
            command = ping
            if pause:
                yield pause
            pause = min(max(pause * 2, _PAUSE_SECONDS), _PAUSE_SECONDS_MAX)
        raise RequestRefused(
            f"partitions of topic {topic!r} in stream {stream!r} are not served at the moment", retryable=True
        )

    def close(self) -> None:
        """Close the connections."""
        for requester in self._requesters.values():
            requester.close()
