"""Errors in the settings.

SettingsError
    Problem, one for each setting that is unknown or invalid
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace_settings.origin import Origin


@dataclass(frozen=True, slots=True)
class Problem:
    """One unknown or invalid setting, with all information needed to correct it."""

    setting: str
    """Dotted name of the setting, or the unknown name."""
    message: str
    origin: Origin | None = None
    allowed: str = ""
    nearest: str | None = None
    """Most similar known name."""

    def __str__(self) -> str:
        where = f" ({self.origin})" if self.origin else ""
        lines = [f"{self.setting}: {self.message}{where}"]
        if self.nearest:
            lines.append(f"    did you mean {self.nearest}?")
        if self.allowed:
            lines.append(f"    allowed: {self.allowed}")
        return "\n".join(lines)


class SettingsError(Exception):
    """The settings are invalid. Nothing was started."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))
