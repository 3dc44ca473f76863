"""Observations of the producers and consumers of a run, and their comparison with what is stored."""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from itertools import pairwise
from typing import Final

WAITING: Final = 0
DELIVERED: Final = 1
UNKNOWN: Final = 2
REFUSED: Final = 3


class Record:
    """Outcomes by key and number; places that a group has read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.outcomes: dict[str, array[int]] = {}
        self._read: dict[int, bytearray] = {}
        self.repeated = 0
        """Messages that were read more than once, after a loss of the partition."""
        self.problems: list[str] = []

    def sent(self, key: str, number: int) -> None:
        """Note that a message was handed to a producer."""
        with self._lock:
            outcomes = self.outcomes.setdefault(key, array("b"))
            assert len(outcomes) == number
            outcomes.append(WAITING)

    def ended(self, key: str, number: int, outcome: int) -> None:
        """Note the outcome of a message."""
        self.outcomes[key][number] = outcome

    def read(self, partition: int, first_offset: int, next_offset: int) -> None:
        """Note places that a member of the group was given."""
        with self._lock:
            seen = self._read.setdefault(partition, bytearray())
            seen.extend(bytes(max(0, next_offset - len(seen))))
            for offset in range(first_offset, next_offset):
                self.repeated += seen[offset]
                seen[offset] = 1

    def problem(self, text: str) -> None:
        """Note something that must not happen."""
        with self._lock:
            self.problems.append(text)

    def missing_reads(self, ends: dict[int, int]) -> int:
        """Return how many messages below these ends the group was not given."""
        with self._lock:
            return sum(end - self._read.get(partition, bytearray())[:end].count(1) for partition, end in ends.items())

    def counts(self) -> Counter[int]:
        """Return the number of messages of each outcome."""
        with self._lock:
            return sum((Counter(outcomes) for outcomes in self.outcomes.values()), Counter())

    def compare(self, partition_payloads: dict[int, list[bytes]]) -> None:
        """Compare what is stored with the outcomes: nothing lost, nothing twice, nothing refused, each key in order."""
        found: dict[str, list[int]] = {}
        for payloads in partition_payloads.values():
            for payload in payloads:
                key, number = payload.split(b":")
                found.setdefault(key.decode(), []).append(int(number))
        for key, outcomes in self.outcomes.items():
            numbers = found.get(key, [])
            stored = set(numbers)
            if len(stored) < len(numbers):
                self.problem(f"{key}: {len(numbers) - len(stored)} messages are stored twice")
            # Messages without an outcome may reach a server that was paused after later ones, on a new connection.
            certain = [number for number in numbers if number < len(outcomes) and outcomes[number] == DELIVERED]
            if turned := next((pair for pair in pairwise(certain) if pair[0] > pair[1]), None):
                self.problem(f"{key}: {turned[1]} is stored after {turned[0]}")
            lost = [number for number, outcome in enumerate(outcomes) if outcome == DELIVERED and number not in stored]
            if lost:
                self.problem(f"{key}: {len(lost)} acknowledged messages are lost, the first is {lost[0]}")
            refused = [number for number, outcome in enumerate(outcomes) if outcome == REFUSED and number in stored]
            if refused:
                self.problem(f"{key}: {len(refused)} refused messages are stored, the first is {refused[0]}")
            if waiting := outcomes.count(WAITING):
                self.problem(f"{key}: {waiting} messages have no outcome")
            if beyond := [number for number in stored if number >= len(outcomes)]:
                self.problem(f"{key}: {beyond[0]} was never sent")
