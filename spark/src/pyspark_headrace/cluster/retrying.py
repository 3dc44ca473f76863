"""Retry policy: retryable errors and back-off."""

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
        # Status codes of the gRPC library for broken connections, and internal errors of servers: both may be
        # transient.
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


class Attempts:
    """Retry counter with back-off. Progress resets the count."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._most = options.retry_max
        self._interval_seconds = options.retry_interval_ms / 1000
        self._count = 0

    def progressed(self) -> None:
        """Reset the count after progress."""
        self._count = 0

    def again(self) -> bool:
        """Back off before another attempt. Returns False at once if all retries are used up."""
        if self._count >= self._most:
            return False
        delay = min(self._interval_seconds * 2**self._count, _DELAY_SECONDS_MAX)
        self._count += 1
        # Jitter: many tasks lose the same server at once and must not retry at the same moment.
        time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, keeps no secret
        return True


def is_worthwhile(error: grpc.RpcError) -> bool:
    """Return whether a retry of the same call may succeed."""
    return error.code() in _WORTHWHILE and status_of(error) != Status.INVALID_MESSAGE_CHECKSUM


def status_of(error: grpc.RpcError) -> int:
    """Return the status code of a Headrace server; 0 for none."""
    for entry in cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ()):
        if entry[0] == STATUS_METADATA:
            return int(entry[1])
    return 0


def said(error: grpc.RpcError) -> str:
    """Describe the error of a call for users."""
    return f"{error.code().name}: {error.details()}"
