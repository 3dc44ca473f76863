"""Bodies and answers of the HTTP interface, but for those that servers pass on: `headrace_connectors_api`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace_connectors_api import ConnectorAnswer


class HealthAnswer(msgspec.Struct):
    """Health of the process."""

    status: str


class TopicAnswer(msgspec.Struct):
    """A topic that a mapping leads to."""

    stream: str
    topic: str


class AbandonAnswer(ConnectorAnswer, kw_only=True):
    """A source whose pending batch was given up."""

    abandoned: Annotated[str | None, Meta(description="Position that was given up to.")]


class ValidAnswer(msgspec.Struct):
    """A definition that was checked, and not put into effect."""

    is_valid: bool


class MappingsAnswer(msgspec.Struct):
    """Names of the mappings in effect."""

    mappings: list[str]


class ProblemDetail(msgspec.Struct):
    """A mistake of a configuration."""

    setting: str
    message: str
    allowed: str
    nearest: str | None


class ProblemAnswer(msgspec.Struct):
    """A refusal (RFC 9457)."""

    status: int
    code: Annotated[str, Meta(description="Stable name for programs.")]
    detail: str
    problems: Annotated[list[ProblemDetail], Meta(description="Each mistake of a configuration.")] = []


class ChangeBody(msgspec.Struct, forbid_unknown_fields=True):
    """A configuration."""

    definition: Annotated[dict[str, Any], Meta(description="Table as in a pipeline file.")]
    kind: Annotated[Literal["source", "sink"] | None, Meta(description="Needed for a new connector.")] = None
    comment: str = ""


class CommentBody(msgspec.Struct, forbid_unknown_fields=True):
    """Reason of a change."""

    comment: str = ""
