"""A service in its own process: it can be killed, paused and restarted on its directory and ports."""

from __future__ import annotations

import atexit
import os
import signal
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.forked_process import ForkedProcess

_STOP_SECONDS = 60.0


class ServiceProcess:
    """`python -m MODULE` with the settings of one service."""

    _alive: ClassVar[weakref.WeakSet[ServiceProcess]] = weakref.WeakSet()

    def __init__(
        self,
        name: str,
        module: str,
        *,
        log: Path,
        arguments: Sequence[str] = (),
        prefix: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a service.

        Args:
            name: Name in error messages.
            module: Module to run.
            log: File of its output.
            arguments: Arguments after the module.
            prefix: Prefix of its variables, such as `HEADRACE_NODE`.
            settings: Settings by variable without the prefix; other variables of the product are not inherited.
        """
        self.name = name
        self.log = log
        self._module = module
        self._arguments = list(arguments)
        self._prefix = prefix
        self._settings = dict(settings or {})
        self._process: ForkedProcess | None = None
        self.is_paused = False

    @property
    def is_running(self) -> bool:
        """Return whether the process is running, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> ForkedProcess:
        """The running process."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    def reconfigure(self, settings: Mapping[str, str]) -> None:
        """Change settings, by variable without the prefix, for the next start."""
        self._settings |= settings

    def start(self) -> None:
        """Start the process without waiting for readiness."""
        assert not self.is_running, f"{self.name} runs already"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "IGGY_"))}
        ours = {f"{self._prefix}_{name}": value for name, value in self._settings.items()}
        with self.log.open("ab") as log:
            self._process = ForkedProcess(
                self._module, self._arguments, environment=inherited | ours, output=log.fileno()
            )
        self._alive.add(self)
        self.is_paused = False

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        if self.is_running:
            self.process.kill()
            self.process.wait()
        self.is_paused = False

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Resume the process (SIGCONT)."""
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def stop(self, *, timeout_seconds: float = _STOP_SECONDS) -> int:
        """Terminate the process (SIGTERM) and return its exit status."""
        self.process.terminate()
        return self.process.wait(timeout_seconds)

    def log_text(self) -> str:
        """The complete log."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def log_tail(self, lines: int = 60) -> str:
        """The last lines of its log."""
        return "\n".join(self.log_text().splitlines()[-lines:])


@atexit.register
def _end_all() -> None:
    for service in list(ServiceProcess._alive):
        service.kill()
