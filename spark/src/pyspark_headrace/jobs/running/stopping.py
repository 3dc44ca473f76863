"""Ending a job from outside: the first signal asks, the second one insists."""

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
    """Whether a job should come to its end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask it to."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether somebody has."""
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until somebody has; False: nobody did for so long."""
        return self._event.wait(seconds)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT for the asking, in the main thread of a process; elsewhere they are not ours."""
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
        """Take them again: a new session of Spark makes SIGINT its own."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self._received)

    def _received(self, number: int, _frame: FrameType | None) -> None:
        if self.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.set()
