"""Findings, limited to a readable number."""

from __future__ import annotations

from typing import Any, Final, Literal

from pyspark_headrace.jobs.running.report import Finding

Level = Literal["error", "warning", "info"]
"""Severity of a finding."""

_MOST: Final = 100
"""Maximum number of listed findings per check and partition or archive. Further ones are only counted."""


class Findings:
    """Collector of findings of the selected checks."""

    def __init__(self, checks: frozenset[str]) -> None:
        self._checks = checks
        self._found: list[Finding] = []
        self._counts: dict[tuple[str, tuple[Any, ...]], int] = {}

    def add(
        self,
        check: str,
        where: dict[str, Any],
        message: str,
        level: Level = "error",
        *,
        count: int = 1,
    ) -> None:
        """Record a finding, if its check is selected.

        Args:
            check: Name of the check.
            where: Exact location.
            message: Description for users.
            level: Severity.
            count: Number of occurrences that the finding stands for.
        """
        if check not in self._checks:
            return
        place = (check, tuple(where.get(name) for name in ("stream", "topic", "partition")))
        self._counts[place] = self._counts.get(place, 0) + count
        if self._counts[place] - count < _MOST:
            self._found.append(Finding(check, level, where, message))

    @property
    def count(self) -> int:
        """Number of all findings, including those not listed."""
        return sum(self._counts.values())

    @property
    def listed(self) -> list[Finding]:
        """Listed findings, in the order of checks and locations."""
        return sorted(self._found, key=_order)


def _order(finding: Finding) -> tuple[Any, ...]:
    where = finding.where
    names = (where.get("stream", ""), where.get("topic", ""), where.get("partition", -1), where.get("offset", -1))
    return (finding.check, *names, where.get("path", ""))
