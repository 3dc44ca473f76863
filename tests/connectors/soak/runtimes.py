"""The processes with the connectors: one, or two that share them."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.connectors.process import Connectors
from tests.connectors.soak.variants import LEASE_SECONDS, SOURCE

_KEYS = (SOURCE, "copy")


class Runtimes:
    """Processes with the same pipeline file.

    Args:
        directory: Directory for their files and logs.
        server_url: Address of the server.
        count: Number of processes.
        draw: Decides which of them is killed.
    """

    def __init__(self, directory: Path, server_url: str, count: int, draw: random.Random) -> None:
        self._draw = draw
        self._all = []
        for number in range(count):
            place = directory / f"runtime-{number}"
            place.mkdir()
            self._all.append(Connectors(place, server_url))

    def run(self, pipeline: str) -> None:
        """Start all."""
        for one in self._all:
            one.run(pipeline)

    def kill_one(self) -> None:
        """Kill one, and start it again."""
        one = self._draw.choice(self._all)
        one.kill()
        one.run()

    def kill_worker(self) -> None:
        """Kill a connector's own process; its parent starts another one."""
        key = self._draw.choice(_KEYS)
        for one in self._all:
            try:
                worker = one.status(key).get("process_id")
                if worker is not None:
                    os.kill(worker, signal.SIGKILL)
            except (OSError, ProcessLookupError):
                # It ends at this moment by itself.
                continue

    def suspend_one(self) -> None:
        """Suspend one for a time within its lease or beyond it."""
        one = self._draw.choice(self._all)
        one.send_signal(signal.SIGSTOP)
        try:
            time.sleep(LEASE_SECONDS * self._draw.uniform(0.2, 2.5))
        finally:
            one.send_signal(signal.SIGCONT)

    def stop(self) -> list[int]:
        """Ask all to stop, one after the other; return those exit statuses that are errors."""
        return [status for one in self._all if (status := one.stop()) != 0]

    def kill(self) -> None:
        """Kill all."""
        for one in self._all:
            one.send_signal(signal.SIGCONT)
            one.kill()

    def tail(self) -> str:
        """End of each log."""
        return "\n".join(f"{one.log}:\n{one.tail()}" for one in self._all)
