"""Trying again: what is worth it, and after how long."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Final, cast

import grpc

from headrace_proto.errors import Status
from pyspark_headrace.options.connection import ConnectionOptions

STATUS_METADATA: Final = "headrace-status"
_DELAY_SECONDS_MAX: Final = 5.0
_WORTHWHILE: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        # What the library says of a connection that breaks, and servers of their own failures: neither has to last.
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class Attempts:
    """Counts attempts that brought nothing, and waits between them."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._most = options.retry_max
        self._interval_seconds = options.retry_interval_ms / 1000
        self._count = 0

    def progressed(self) -> None:
        """Something new has come: count anew."""
        self._count = 0

    def again(self) -> bool:
        """Wait before another attempt; False, at once, if there were enough."""
        if self._count >= self._most:
            return False
        delay = min(self._interval_seconds * 2**self._count, _DELAY_SECONDS_MAX)
        self._count += 1
        # Many tasks lose the same server at once, and should not come back at once.
        time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, keeps no secret
        return True


def is_worthwhile(error: grpc.RpcError) -> bool:
    """Whether the same call may succeed later."""
    return error.code() in _WORTHWHILE and status_of(error) != Status.INVALID_MESSAGE_CHECKSUM


def status_of(error: grpc.RpcError) -> int:
    """Return the status that a server of ours has given; 0 for none."""
    for entry in cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ()):
        if entry[0] == STATUS_METADATA:
            return int(entry[1])
    return 0


def said(error: grpc.RpcError) -> str:
    """What a call ended with, for people."""
    return f"{error.code().name}: {error.details()}"
