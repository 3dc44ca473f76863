"""Bodies and answers of the HTTP interface. Times are texts in RFC 3339."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class HealthAnswer(msgspec.Struct):
    """Health of the process."""

    status: str


class LagAnswer(msgspec.Struct):
    """Distance of a connector from the end of what it reads."""

    behind: int
    unit: Literal["bytes", "messages", "rows"]


class StateChangeAnswer(msgspec.Struct):
    """A change of the state."""

    at: str
    state: str
    reason: str | None


class ErrorAnswer(msgspec.Struct):
    """An error, with its repetitions."""

    first_at: str
    at: str
    code: str | None
    message: str
    count: int


class TopicAnswer(msgspec.Struct):
    """A topic."""

    stream: str
    topic: str


class DroppedAnswer(msgspec.Struct):
    """Records of a source that were dropped."""

    refused: Annotated[dict[str, int], Meta(description="Those that were not admitted, by reason.")]
    unmatched: Annotated[dict[str, int], Meta(description="Those without a destination, by treatment.")]


class ConnectorAnswer(msgspec.Struct, kw_only=True):
    """A connector: its state and its progress."""

    key: str
    kind: Literal["source", "sink"]
    plugin: str
    state: Literal["starting", "running", "degraded", "stopping", "stopped", "standby", "error"]
    records_count: Annotated[int, Meta(description="Records that were stored, or written by a sink.")]
    batches_count: int
    records_per_second: float | None
    lag: LagAnswer | None
    consecutive_failures: int
    error_code: str | None
    last_error: str | None
    last_error_at: str | None
    last_commit_at: str | None
    last_abandon_at: str | None
    last_abandoned: Annotated[str | None, Meta(description="Position that was given up to.")]
    errors: Annotated[list[ErrorAnswer], Meta(description="Newest errors, the oldest first.")]
    history: Annotated[list[StateChangeAnswer], Meta(description="Newest changes of the state, the oldest first.")]
    transforms: Annotated[
        dict[str, dict[str, Any]], Meta(description="State of transforms that have one, such as the epoch of `route`.")
    ] = {}
    runs_in: Annotated[str | None, Meta(description="Process of the group that runs it.")] = None
    is_routed: Annotated[bool, Meta(description="True if records of a source have destinations of their own.")] = False
    destinations_count: Annotated[int, Meta(description="Destinations of a source that are in use.")] = 0
    dropped: DroppedAnswer | None = None
    topics: Annotated[list[TopicAnswer], Meta(description="Topics that a sink reads.")] = []
    group: Annotated[str | None, Meta(description="Consumer group of a sink.")] = None
    invalid_count: Annotated[int, Meta(description="Messages that a sink could not convert or write.")] = 0
    dead_letters_count: int = 0
    process_id: Annotated[int | None, Meta(description="Id of its process, if it has one of its own.")] = None
    restarts_count: int = 0


class AbandonAnswer(ConnectorAnswer, kw_only=True):
    """A source whose pending batch was given up."""

    abandoned: Annotated[str | None, Meta(description="Position that was given up to.")]


class DestinationAnswer(msgspec.Struct):
    """A topic that a source writes to."""

    stream: str
    topic: str
    circuit: Literal["closed", "open", "half_open"]
    partitions_count: int | None
    messages_count: int
    last_error: str | None


class SampleAnswer(msgspec.Struct):
    """Progress of a connector at one time."""

    at: str
    state: str
    records_count: int
    records_per_second: float | None
    lag: LagAnswer | None


class HistoryAnswer(msgspec.Struct):
    """Progress over the last hour."""

    interval_seconds: float
    samples: list[SampleAnswer]


class VersionAnswer(msgspec.Struct):
    """A version of a configuration; it never changes."""

    number: int
    at: str
    author: str
    comment: str
    origin: Annotated[Literal["file", "http"], Meta(description="`file`: found in the pipeline file at a start.")]
    kind: Literal["source", "sink", "mapping"]
    definition: Annotated[
        dict[str, Any] | None, Meta(description="Table as in a pipeline file, without secrets; null: a deletion.")
    ]


class ActivationAnswer(msgspec.Struct):
    """A version that became the active one."""

    at: str
    number: int
    author: str
    comment: str


class VersionsAnswer(msgspec.Struct):
    """The versions of a connector or mapping, the newest first."""

    key: str
    epoch: Annotated[int, Meta(description="Number of changes so far; the ETag has it.")]
    active: int | None
    is_deleted: bool
    is_changeable: Annotated[bool, Meta(description="False: the pipeline file does not allow changes.")]
    versions: list[VersionAnswer]
    activations: list[ActivationAnswer]


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
