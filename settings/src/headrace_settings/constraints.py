"""Bounds of settings that a start refuses to cross, each able to say in words what it allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headrace_settings.duration import Duration, Expiry
from headrace_settings.size import Size, SizeLimit


class Constraint:
    """What an annotation adds to a type: a check, and the words that follow the type's own in "allowed:"."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        """The rest of the sentence, for example "from 1 to 10"."""
        return ""

    def check(self, value: Any) -> Any:
        """Return the value, or raise ValueError with what is wrong with it."""
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


def _comparable(value: object) -> Any:
    """Sizes compare with limits too, so that "unlimited" is above every maximum."""
    return value.bytes if isinstance(value, Size | SizeLimit) else value


@dataclass(frozen=True, slots=True)
class Between(Constraint):
    """At least ``low`` and at most ``high``, both included; None leaves that side open."""

    low: int | Duration | Size | None = None
    high: int | Duration | Size | None = None

    @property
    def allowed(self) -> str:
        """The interval in words."""
        if self.high is None:
            return f"at least {self.low}"
        return f"at most {self.high}" if self.low is None else f"from {self.low} to {self.high}"

    def check(self, value: Any) -> Any:
        """Refuse what lies outside."""
        if self.low is not None and _comparable(value) < _comparable(self.low):
            raise ValueError(f"{value} is less than {self.low}")
        if self.high is not None and _comparable(value) > _comparable(self.high):
            raise ValueError(f"{value} is more than {self.high}")
        return value


@dataclass(frozen=True, slots=True)
class MultipleOf(Constraint):
    """A whole multiple of ``step`` (bytes for a size)."""

    step: int

    @property
    def allowed(self) -> str:
        """The step in words."""
        return f"a multiple of {self.step}"

    def check(self, value: Any) -> Any:
        """Refuse what lies between two steps."""
        if _comparable(value) % self.step:
            raise ValueError(f"{value} is not a multiple of {self.step}")
        return value


@dataclass(frozen=True, slots=True)
class NotServerDefault(Constraint):
    """The server's own setting cannot point back at the server's setting."""

    def check(self, value: Any) -> Any:
        """Refuse ``server_default``."""
        if value.is_server_default:
            raise ValueError('"server_default" says nothing here: this is the server\'s default')
        return value


ServerExpiry = Annotated[Expiry, NotServerDefault()]
"""An expiry that decides by itself."""
