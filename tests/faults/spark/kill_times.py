"""Times of kills: random, just after the begin of a micro-batch, or just before its end."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_POLL_SECONDS: Final = 0.01
_GAP_SECONDS: Final = (0.8, 3.0)
_BEGUN_SECONDS_MAX: Final = 0.3
_WAIT_SECONDS_MAX: Final = 15.0
_SHARES: Final = (("any", 0.3), ("begun", 0.35), ("ending", 0.35))


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch according to Spark's checkpoint."""

    number: int
    begun_at: float
    """Time at which its offsets were written, by the clock of the file system."""
    is_through: bool


class Checkpoint:
    """Checkpoint of one query."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def last(self) -> Batch | None:
        """Return the micro-batch begun last."""
        number = _last(self._directory / "offsets")
        if number is None:
            return None
        try:
            begun_at = (self._directory / "offsets" / str(number)).stat().st_mtime
        except FileNotFoundError:
            return None
        return Batch(number, begun_at, (self._directory / "commits" / str(number)).exists())

    def is_within(self) -> bool:
        """Return whether a micro-batch is in progress."""
        last = self.last()
        return last is not None and not last.is_through

    def seconds(self) -> float:
        """Return the duration of the last complete micro-batch, or an estimate if there is none."""
        number = _last(self._directory / "commits")
        try:
            begun_at, through_at = (
                (self._directory / kind / str(number)).stat().st_mtime for kind in ("offsets", "commits")
            )
        except FileNotFoundError:
            return 1.0
        return min(max(through_at - begun_at, 0.05), 5.0)

    def count(self) -> int:
        """Return the number of committed micro-batches."""
        last = _last(self._directory / "commits")
        return 0 if last is None else last + 1

    def ends(self, title: str) -> dict[int, int]:
        """Return the end offsets of the committed micro-batches, by partition of a topic."""
        number = _last(self._directory / "commits")
        if number is None:
            return {}
        try:
            text = (self._directory / "offsets" / str(number)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        noted: dict[str, Any] = json.loads(text.splitlines()[-1])
        return {int(partition): offset for partition, offset in noted["t"][title]["p"].items()}


class Moments:
    """Random choice of kill times."""

    def __init__(self, checkpoints: dict[str, Checkpoint], numbers: random.Random) -> None:
        self._checkpoints = checkpoints
        self._numbers = numbers

    def next(self) -> str:
        """Wait for the next kill time; return its kind."""
        kinds, shares = zip(*_SHARES, strict=True)
        (kind,) = self._numbers.choices(kinds, shares)
        name = self._numbers.choice(sorted(self._checkpoints))
        delay = self._numbers.uniform(*_GAP_SECONDS)
        place = self._numbers.random()
        time.sleep(delay)
        if kind == "any":
            return "at any time"
        checkpoint = self._checkpoints[name]
        before = checkpoint.last()
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while (last := checkpoint.last()) is None or (before is not None and last.number <= before.number):
            if time.monotonic() > deadline:
                return "while nothing moves"
            time.sleep(_POLL_SECONDS)
        if kind == "begun":
            time.sleep(place * _BEGUN_SECONDS_MAX)
            return f"in the beginning of {name} {last.number}"
        time.sleep((0.5 + 0.6 * place) * checkpoint.seconds())
        return f"towards the end of {name} {last.number}"


def _last(directory: Path) -> int | None:
    try:
        return max((int(entry.name) for entry in directory.iterdir() if entry.name.isdigit()), default=None)
    except FileNotFoundError:
        return None
