"""History of soak runs: one JSON line for each round, so that the next run continues where this one ended."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Status = Literal["passed", "failed", "cut off"]
"""Outcome of a round. `cut off`: the time limit or an interrupt ended the round without a result."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A finished round."""

    suite: str
    seed: int
    seconds: float
    status: Status
    ended_at: str
    """End of the round in UTC, ISO 8601."""
    repeat: str
    """Shell command that repeats the round."""
    log: str
    """Path of the log; logs of passed rounds are removed."""


class Journal:
    """A file of entries. A line torn by a crash is ignored."""

    def __init__(self, file: Path) -> None:
        """Read the file if it exists."""
        self._file = file
        self.entries: list[Entry] = []
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    self.entries.append(Entry(**json.loads(line)))
                except (ValueError, TypeError):
                    continue

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        self.entries.append(entry)
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(entry)) + "\n")

    def seconds_of(self, suite: str) -> float:
        """Total seconds that a suite has run."""
        return sum(entry.seconds for entry in self.entries if entry.suite == suite)


def repeat_command(command: Sequence[str], environment: dict[str, str], directory: str) -> str:
    """Return a shell command for the root of the repository."""
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    line = f"{variables} {shlex.join(command)}".strip()
    return f"(cd {shlex.quote(directory)} && {line})" if directory not in ("", ".") else line


def report(now: Sequence[Entry], before: Sequence[Entry], left_out: Iterable[tuple[str, str]]) -> str:
    """Describe this run and the whole history in Markdown.

    Args:
        now: Entries of this run.
        before: Entries of earlier runs.
        left_out: Suites that could not run, each with the reason.
    """
    lines = [
        "# Soak run",
        "",
        "| suite | rounds | minutes | failed | cut off | minutes in all runs |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for suite in dict.fromkeys(entry.suite for entry in (*now, *before)):
        mine = [entry for entry in now if entry.suite == suite]
        everything = [entry for entry in (*before, *mine) if entry.suite == suite]
        lines.append(
            f"| {suite} | {len(mine)} | {_minutes(mine)} | {_count(mine, 'failed')} | {_count(mine, 'cut off')}"
            f" | {_minutes(everything)} |"
        )
    lines += ["", *(f"- not run: {suite}: {why}" for suite, why in left_out)]
    for entry in now:
        if entry.status == "failed":
            lines += [
                "",
                f"## {entry.suite} failed with seed {entry.seed}",
                "",
                f"    {entry.repeat}",
                "",
                f"Its output: {entry.log}",
            ]
    return "\n".join(lines) + "\n"


def _minutes(entries: Sequence[Entry]) -> str:
    return f"{sum(entry.seconds for entry in entries) / 60:.1f}"


def _count(entries: Sequence[Entry], status: Status) -> int:
    return sum(entry.status == status for entry in entries)
