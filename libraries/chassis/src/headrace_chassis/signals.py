"""Signals of a process: SIGINT and SIGTERM stop it, SIGUSR1 makes it check its certificates."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

FORCED_EXIT_STATUS: Final = 130
"""Exit status after a second signal to stop."""

_Reload = Callable[[], Coroutine[Any, Any, None]]


class Signals:
    """Handlers of the signals of a service, from its construction on; needs a running event loop.

    The handlers are set before anything is started: unhandled, each of these signals would end the process at once.
    """

    def __init__(self, cancel_start: Callable[[], object]) -> None:
        """Handle the signals.

        Args:
            cancel_start: Called if the process is asked to stop before it has started.
        """
        self.stop: Final = asyncio.Event()
        """Set when the process is asked to stop."""
        self._cancel_start: Callable[[], object] | None = cancel_start
        self._reload: _Reload | None = None
        self._reload_came_early = False
        self._reloads: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_stop)
        loop.add_signal_handler(signal.SIGUSR1, self._on_reload)

    def started(self, reload: _Reload) -> None:
        """Set the reload function; it is called at once if its signal came during the start."""
        self._cancel_start = None
        self._reload = reload
        if self._reload_came_early:
            self._on_reload()

    def _on_stop(self) -> None:
        if self.stop.is_set():
            # Threads may be blocked by a device: nothing else is certain to end the process.
            os._exit(FORCED_EXIT_STATUS)
        self.stop.set()
        if self._cancel_start is not None:
            # There are no clients yet, and another service that the start waits for may never become available.
            self._cancel_start()

    def _on_reload(self) -> None:
        if self._reload is None:
            self._reload_came_early = True
            return
        # Keep a reference: an unreferenced task may be garbage-collected before it has run.
        task = asyncio.ensure_future(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)
