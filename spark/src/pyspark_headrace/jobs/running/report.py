"""What a job says of itself at its end, for programs: one line of JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyspark_headrace.jobs.running.config import LEVELS

Status = Literal["done", "stopped", "failed", "findings"]


@dataclass(frozen=True)
class Finding:
    """Something about the data that somebody should look at."""

    check: str
    """Which rule it is about."""
    level: Literal["error", "warning", "info"]
    """How bad it is."""
    where: dict[str, Any]
    """The exact place: topic, partition, offset, path."""
    message: str
    """For people."""


@dataclass
class Report:
    """A job fills in what it counted and found; the rest is filled in for it."""

    job: str = ""
    name: str = ""
    status: Status = "done"
    started_at: str = ""
    """ISO 8601, UTC."""
    seconds: float = 0.0
    dry_run: bool = False
    counts: dict[str, int | float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    error: str | None = None

    def has_findings(self, level: str) -> bool:
        """Whether something was found of this level or above; never where that is no level."""
        levels = LEVELS[LEVELS.index(level) :] if level in LEVELS else ()
        return any(finding.level in levels for finding in self.findings)

    def to_json(self) -> str:
        """One line, its members always in the same order."""
        return json.dumps(asdict(self), ensure_ascii=False, default=str)

    def write(self, path: Path) -> None:
        """Write it to a file, which has all of it or what it had before.

        Raises:
            OSError: That is not possible.
        """
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_text(self.to_json() + "\n", encoding="utf-8")
        part.replace(path)
