"""Findings, not more than anybody reads."""

from __future__ import annotations

from typing import Any, Final, Literal

from pyspark_headrace.jobs.running.report import Finding

Level = Literal["error", "warning", "info"]
"""How bad a finding is."""

_MOST: Final = 100
"""Of one check in one partition or archive; the others are counted."""


class Findings:
    """Collects findings of the checks that were asked for."""

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
        """Note one, if its check was asked for.

        Args:
            check: Which rule it is about.
            where: The exact place.
            message: For people.
            level: How bad it is.
            count: How many there are of which this is the first.
        """
        if check not in self._checks:
            return
        place = (check, tuple(where.get(name) for name in ("stream", "topic", "partition")))
        self._counts[place] = self._counts.get(place, 0) + count
        if self._counts[place] - count < _MOST:
            self._found.append(Finding(check, level, where, message))

    @property
    def count(self) -> int:
        """Of all, those that are not listed too."""
        return sum(self._counts.values())

    @property
    def listed(self) -> list[Finding]:
        """In the order of checks and places."""
        return sorted(self._found, key=_order)


def _order(finding: Finding) -> tuple[Any, ...]:
    where = finding.where
    names = (where.get("stream", ""), where.get("topic", ""), where.get("partition", -1), where.get("offset", -1))
    return (finding.check, *names, where.get("path", ""))
