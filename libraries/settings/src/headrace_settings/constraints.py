"""Bounds of settings that are enforced at startup, each with a description of the allowed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from headrace_settings.units.duration import Duration, Expiry
from headrace_settings.units.size import Size, SizeLimit


class Constraint:
    """A check that an annotation adds to a type, and the words that follow the type's own in "allowed:"."""

    __slots__ = ()

    @property
    def allowed(self) -> str:
        """End of the sentence, for example "from 1 to 10"."""
        return ""

    def check(self, value: Any) -> Any:
        """Return the value, or raise ValueError with a description of the problem."""
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


def _comparable(value: object) -> Any:
    """Make sizes comparable with limits, so that "unlimited" is above every maximum."""
    return value.bytes if isinstance(value, Size | SizeLimit) else value


@dataclass(frozen=True, slots=True)
class Between(Constraint):
    """Range from ``low`` to ``high``, both included; None leaves that side open."""

    low: int | Duration | Size | None = None
    high: int | Duration | Size | None = None

    @property
    def allowed(self) -> str:
        """Interval in words."""
        if self.high is None:
            return f"at least {self.low}"
        return f"at most {self.high}" if self.low is None else f"from {self.low} to {self.high}"

    def check(self, value: Any) -> Any:
        """Refuse values outside."""
        if self.low is not None and _comparable(value) < _comparable(self.low):
            raise ValueError(f"{value} is less than {self.low}")
        if self.high is not None and _comparable(value) > _comparable(self.high):
            raise ValueError(f"{value} is more than {self.high}")
        return value


@dataclass(frozen=True, slots=True)
class MultipleOf(Constraint):
    """Whole multiple of ``step`` (bytes for a size)."""

    step: int

    @property
    def allowed(self) -> str:
        """Step in words."""
        return f"a multiple of {self.step}"

    def check(self, value: Any) -> Any:
        """Refuse values between two steps."""
        if _comparable(value) % self.step:
            raise ValueError(f"{value} is not a multiple of {self.step}")
        return value


@dataclass(frozen=True, slots=True)
class NotServerDefault(Constraint):
    """Excludes the server's default: the server's own setting cannot refer to itself."""

    def check(self, value: Any) -> Any:
        """Refuse ``server_default``."""
        if value.is_server_default:
            raise ValueError('"server_default" is not valid here: this setting is the server\'s default')
        return value


ServerExpiry = Annotated[Expiry, NotServerDefault()]
"""Expiry that is not the server's default."""
