"""Final report of a job for programs: one line of JSON."""

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
    """A condition of the data that needs attention."""

    check: str
    """Name of the check."""
    level: Literal["error", "warning", "info"]
    """Severity."""
    where: dict[str, Any]
    """Exact location: topic, partition, offset, path."""
    message: str
    """Description for users."""


@dataclass
class Report:
    """Report of a job. The job sets counts and findings; the framework sets the rest."""

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
        """Return whether there are findings at or above a level; False for an unknown level."""
        levels = LEVELS[LEVELS.index(level) :] if level in LEVELS else ()
        return any(finding.level in levels for finding in self.findings)

    def to_json(self) -> str:
        """Encode the report as one line, with members in a fixed order."""
        return json.dumps(asdict(self), ensure_ascii=False, default=str)

    def write(self, path: Path) -> None:
        """Write the report to a file atomically.

        Raises:
            OSError: The file cannot be written.
        """
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_text(self.to_json() + "\n", encoding="utf-8")
        part.replace(path)
