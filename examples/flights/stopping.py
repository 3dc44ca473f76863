"""Stop requests for the programs of the example: Ctrl-C, or a signal of the parent program."""

from __future__ import annotations

import signal
import threading


def on_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
