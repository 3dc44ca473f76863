"""What can be wrong with the settings.

SettingsError
    Problem, one for each setting that is unknown or wrong
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace_settings.origin import Origin


@dataclass(frozen=True, slots=True)
class Problem:
    """One unknown or wrong setting, with all that is needed to mend it."""

    setting: str
    """The setting's dotted name, or the name that is not known."""
    message: str
    origin: Origin | None = None
    allowed: str = ""
    nearest: str | None = None
    """A known name that may be meant."""

    def __str__(self) -> str:
        where = f" ({self.origin})" if self.origin else ""
        lines = [f"{self.setting}: {self.message}{where}"]
        if self.nearest:
            lines.append(f"    did you mean {self.nearest}?")
        if self.allowed:
            lines.append(f"    allowed: {self.allowed}")
        return "\n".join(lines)


class SettingsError(Exception):
    """The settings cannot be used. Nothing was started."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))
