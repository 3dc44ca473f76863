"""The blocking producer without a topic."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from headrace.sdk.blocking.direct import DirectCalls
from headrace.sdk.direct import bound_only


class DirectProducer(DirectCalls):
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
