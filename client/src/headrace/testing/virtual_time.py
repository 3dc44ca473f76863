"""Time that a test advances, in place of waiting for it."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from headrace.sdk.clock import replace_clock
from headrace.sdk.errors import InvalidArgument, native
from headrace_core import VirtualTime as NativeVirtualTime

_TIMER_SECONDS: Final = 0.001


class VirtualTime:
    """Virtual time for the clients that are made in its ``with`` block: it stands still until `advance`.

    It is the time of what a client does by itself: `linger`, pauses between attempts to connect, `keepalive`,
    `response_timeout`, `request_timeout`, `delivery_timeout`, `heartbeat` and `commit_interval`. Close the clients
    within the block, and have one block at a time in a process.

    Servers and `FaultyNetwork` have the real time, and so do waits with a timeout of their own, such as
    `poll(timeout=1)` and `delivery.result(timeout=1)`.

        with LocalServer() as server, VirtualTime() as time, headrace.connect(server.url) as client:
            with client.producer(*server.fresh_topic(), linger=60) as producer:
                delivery = producer.send(b"tea")
                assert not delivery.done()
                time.advance(60)
                assert delivery.done()
    """

    def __init__(self) -> None:
        """Describe it; it begins with the ``with`` block."""
        self._native: NativeVirtualTime | None = None
        self._now = 0.0

    @property
    def now(self) -> float:
        """Seconds that have passed in virtual time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass, in small steps, and what follows from it happen.

        Answers of a server are awaited after each step, until it shows no sign of life for 0.1 s: a test in which
        answers are lost takes that long. With asyncio, call it as ``await asyncio.to_thread(time.advance, 60)``.

        Args:
            seconds: Time that passes, in virtual time.

        Raises:
            InvalidArgument: The time is negative, or the block has ended.
        """
        if self._native is None:
            raise InvalidArgument("virtual time: it passes within its `with` block only")
        if not 0 <= seconds <= 1e9:
            raise InvalidArgument(f"seconds: {seconds!r} is no time; it is 0 to 1,000,000,000 seconds")
        # Include timers that are due at this very moment: timers have a resolution of a millisecond.
        native(self._native.advance(seconds + _TIMER_SECONDS).wait)
        self._now += seconds

    def __enter__(self) -> Self:
        try:
            self._native = NativeVirtualTime()
        except RuntimeError as error:
            raise InvalidArgument(str(error)) from None
        # An origin of its own makes sure that nothing depends on its value.
        replace_clock(lambda: 1000.0 + self._now)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        found, self._native = self._native, None
        replace_clock(None)
        if found is not None:
            found.end()
