"""Mistakes that a user can correct, as exceptions of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace_core import ServerError

_LISTED_MAX: Final = 10


class CommandError(Exception):
    """A command failed. The message says what was wrong, where, and what to do."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status
        """Exit status of the program."""


def those_there(names: Iterable[str], *, otherwise: str) -> str:
    """Return ``(there are: a, b)``, shortened for many names, or ``(there is none: ...)`` with what creates one."""
    found = list(names)
    if not found:
        return f"(there is none: {otherwise})"
    listed = ", ".join(found[:_LISTED_MAX])
    more = f" and {len(found) - _LISTED_MAX:,} more" if len(found) > _LISTED_MAX else ""
    return f"(there {'is' if len(found) == 1 else 'are'}: {listed}{more})"


def refusal(error: ServerError) -> str:
    """Return what a refusal of the server means for a user."""
    if error.name == "Unauthorized":
        command, _, _ = str(error).partition(" ")
        # A server before this version does not say which permission is missing.
        return error.explanation or f"this user lacks the permission for {command}: `headrace user grant` gives it"
    return f"the server refused: {error}"
