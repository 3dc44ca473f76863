"""Results of sending and reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from headrace.sdk.errors import DeadlineExceeded, HeadraceError, native, translated
from headrace_core import Delivered, Delivery, Pending, SessionError, translate_failures
from headrace_core import Deliveries as NativeDeliveries

__all__ = ["Deliveries", "Delivery", "Gap", "value_of"]

Result = TypeVar("Result")


class Gap(NamedTuple):
    """Messages that were removed, by retention or deletion, before they could be read.

    Examples:
        >>> gap = Gap(partition_id=0, first_offset=10, next_offset=15)
        >>> gap.next_offset - gap.first_offset
        5
    """

    partition_id: int
    first_offset: int
    next_offset: int
    """First offset after them."""


class Deliveries:
    """The result of messages that were sent together.

    Examples:
        >>> with client.producer("shop", "orders") as producer:
        ...     deliveries = producer.send_many([b"1", b"2", b"3"], partition=0)
        >>> len(deliveries), [(place.offset, count) for place, count in deliveries.result()]
        (3, [(0, 3)])
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: list[NativeDeliveries]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        """Show the number of messages, without asking for their results."""
        try:
            return f"Deliveries({len(self)} messages, done={self.done()})"
        except (SessionError, HeadraceError):
            return "Deliveries(of another process)"

    def done(self) -> bool:
        """Return whether all results are there."""
        return all(native(part.done) for part in self._parts)

    def result(self, timeout: float | None = None) -> list[tuple[Delivered, int]]:
        """Wait for all results: for each run of messages with consecutive offsets, its first place and its length.

        Args:
            timeout: Seconds for all of them; None: as long as it takes.

        Raises:
            DeadlineExceeded: Some results are not there yet.
            HeadraceError: As `Delivery.result`: the first failure. Other messages may be stored all the same.
        """
        until = None if timeout is None else time.monotonic() + timeout
        found: list[tuple[Delivered, int]] = []
        for part in self._parts:
            found += _result_of(part.result, None if until is None else max(0.0, until - time.monotonic()))
        return found


def _result_of(result: Callable[[float | None], Result], timeout: float | None) -> Result:
    try:
        return result(timeout)
    except (SessionError, TimeoutError) as error:
        raise _documented(error) from None


def _documented(error: BaseException) -> BaseException:
    """Return the documented exception in place of one of the native module; any other stays."""
    if isinstance(error, SessionError):
        return translated(error)
    if isinstance(error, TimeoutError):
        # The message is still being sent: to send it again would be a second one.
        return DeadlineExceeded(str(error), retryable=False)
    return error


translate_failures(_documented)


def value_of(pending: Pending) -> Any:
    """Return the result of an operation that has ended.

    Raises:
        HeadraceError: It has failed.
    """
    return native(pending.result)
