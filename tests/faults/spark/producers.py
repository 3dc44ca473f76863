"""Producers that continuously append numbered messages and record the acknowledged ones."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Final

from headrace_core import Client, ServerError
from tests.faults.cluster.load import Way
from tests.faults.workload import Worker

PARTITIONS_COUNT: Final = 3
_COUNTS: Final = (1, 1, 2, 10, 40)
_PADDING_BYTES: Final = (0, 0, 20, 200)
_PAUSE_SECONDS_MAX: Final = 0.5
_REFUSED_SECONDS: Final = 0.1


class Producer(Worker):
    """Producer that sends each message once: a duplicate has another cause."""

    def __init__(self, number: int, way: Way, stream: str, *, seed: int) -> None:
        super().__init__(f"producer {number}", way)
        self.number = number
        self.acknowledged: list[range] = []
        """Numbers of acknowledged messages."""
        self.sent = 0
        """Upper bound of the numbers sent, at least partly."""
        self.refusals: Counter[str] = Counter()
        self._stream = stream
        self._random = random.Random(f"{seed} producer {number}")

    def _work_until_lost(self) -> None:
        try:
            super()._work_until_lost()
        except ServerError as error:
            # The server refuses the login, for example while there is no primary.
            self.refusals[error.name] += 1
            time.sleep(_REFUSED_SECONDS)

    def work(self, client: Client) -> None:
        """Send one batch."""
        batch = range(self.sent, self.sent + self._random.choice(_COUNTS))
        self.sent = batch.stop
        padding = b"." * self._random.choice(_PADDING_BYTES)
        payloads = [b"%d %d %b" % (self.number, message, padding) for message in batch]
        partition = self._random.choice((None, *range(PARTITIONS_COUNT)))
        client.send(self._stream, "in", payloads, partition=partition)
        self.acknowledged.append(batch)
        time.sleep(self._random.uniform(0, _PAUSE_SECONDS_MAX))
