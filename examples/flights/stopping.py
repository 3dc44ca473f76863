"""How the programs of the example are ended: by Ctrl-C, or by whoever has started them."""

from __future__ import annotations

import signal
import threading


def on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
