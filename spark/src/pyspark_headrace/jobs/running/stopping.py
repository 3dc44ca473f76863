"""Stop requests by signals: the first one requests a graceful stop, the second one ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Stop request of a job."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Request a stop."""
        self._event.set()

    def is_set(self) -> bool:
        """Return whether a stop was requested."""
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for a stop request; returns False after a timeout."""
        return self._event.wait(seconds)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT as stop requests within the block. No effect outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.take_signals()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def take_signals(self) -> None:
        """Install the handlers again: a new Spark session replaces the one for SIGINT."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self._received)

    def _received(self, number: int, _frame: FrameType | None) -> None:
        if self.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.set()
