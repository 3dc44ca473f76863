"""Faults of the connections and the server during a run."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from tests.sdk.proxy import Proxy
from tests.server_process import ServerProcess

_PAUSE_SECONDS: Final = (0.3, 1.2)
"""Shortest and longest time between faults."""


class Faults:
    """A thread that breaks one thing after the other, chosen by a seed."""

    def __init__(self, server: ServerProcess, proxy: Proxy, seed: int) -> None:
        self._server = server
        self._proxy = proxy
        self._random = random.Random(seed)
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults")
        self._failure: BaseException | None = None
        self.done: Counter[str] = Counter()
        """Number of faults of each kind."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, with the server running and connections undisturbed; raise what has failed."""
        self._has_ended.set()
        self._thread.join()
        self._proxy.cut_after()
        self._proxy.delay_seconds = 0
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        kinds: list[tuple[int, Callable[[], None]]] = [
            (6, self._cut),
            (6, self._cut_request),
            (6, self._cut_answer),
            (3, self._stall),
            (3, self._delay),
            (2, self._pause),
            (2, self._kill),
            (1, self._restart),
        ]
        weights = [weight for weight, _ in kinds]
        try:
            while not self._has_ended.wait(self._random.uniform(*_PAUSE_SECONDS)):
                ((_, fault),) = self._random.choices(kinds, weights)
                self.done[fault.__name__.strip("_")] += 1
                fault()
        except BaseException as failure:  # noqa: BLE001 - `stop` raises it
            self._failure = failure

    def _cut(self) -> None:
        self._proxy.cut()

    def _cut_request(self) -> None:
        self._proxy.cut_after(requests=self._random.randrange(20_000))

    def _cut_answer(self) -> None:
        self._proxy.cut_after(answers=self._random.randrange(5_000))

    def _stall(self) -> None:
        self._proxy.stall()
        self._has_ended.wait(self._random.uniform(0.2, 2.5))
        self._proxy.stall(False)  # noqa: FBT003 - as the method reads

    def _delay(self) -> None:
        self._proxy.delay_seconds = self._random.choice((0, 0, 0.005, 0.02))

    def _pause(self) -> None:
        os.kill(self._server.process.pid, signal.SIGSTOP)
        self._has_ended.wait(self._random.uniform(0.2, 3.0))
        os.kill(self._server.process.pid, signal.SIGCONT)

    def _kill(self) -> None:
        self._server.restart(kill=True)

    def _restart(self) -> None:
        self._server.restart()
