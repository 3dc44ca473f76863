"""Rules, and the outcomes of their checks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

CaseType = TypeVar("CaseType")


class Violation(AssertionError):
    """The plugin breaks the rule; the text says how."""


class NotChecked(Exception):
    """The rule does not apply to this plugin, or its case does not say what the check needs."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[CaseType]):
    """One rule of the contract."""

    name: str
    """Name, such as `close_is_repeatable`."""
    text: str
    """The rule, in a sentence."""
    check: Callable[[CaseType], Awaitable[None]]
    """Raises `Violation` or `NotChecked`."""

    def __str__(self) -> str:
        return self.name


class Outcome(NamedTuple):
    """Result of a check."""

    rule: Rule[Any]
    result: Literal["passed", "failed", "not_checked"]
    reason: str | None = None
    """Description of the violation, or why the rule was not checked."""


def rule(check: Callable[[CaseType], Awaitable[None]]) -> Rule[CaseType]:
    """Make a rule of its check: the name is the function's, the text its docstring."""
    name = getattr(check, "__name__", "rule")
    return Rule(name, " ".join((inspect.getdoc(check) or name).split()), check)
