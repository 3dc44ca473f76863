"""Connectors: state, progress, and versions of their configurations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace_gateway.json_api.numbers import Checked


class ConnectorLagAnswer(msgspec.Struct, kw_only=True):
    """Distance of a connector from the end of what it reads."""

    behind: int
    unit: str


class StateChangeAnswer(msgspec.Struct, kw_only=True):
    """A change of the state."""

    at: str
    state: str
    reason: str | None = None


class ConnectorErrorAnswer(msgspec.Struct, kw_only=True):
    """An error, with its repetitions."""

    first_at: str
    at: str
    code: str | None = None
    message: str
    count: int


class ReadTopicAnswer(msgspec.Struct, kw_only=True):
    """A topic that a sink reads."""

    stream: str
    topic: str


class ConnectorAnswer(msgspec.Struct, kw_only=True):
    """A connector. Times are texts in RFC 3339."""

    key: str
    kind: Literal["source", "sink"]
    plugin: str
    state: Annotated[
        str, Meta(description="`starting`, `running`, `degraded`, `stopping`, `stopped` or `error`, among others.")
    ]
    records_count: Annotated[int, Meta(description="Records that were stored, or written by a sink.")] = 0
    batches_count: int = 0
    records_per_second: float | None = None
    lag: ConnectorLagAnswer | None = None
    consecutive_failures: int = 0
    error_code: str | None = None
    last_error: str | None = None
    last_error_at: str | None = None
    last_commit_at: str | None = None
    destinations_count: Annotated[int | None, Meta(description="Null for a sink.")] = None
    topics: Annotated[list[ReadTopicAnswer], Meta(description="Topics that a sink reads.")] = []
    group: Annotated[str | None, Meta(description="Consumer group of a sink.")] = None
    dead_letters_count: int | None = None
    runs_in: Annotated[str | None, Meta(description="Process of a group that runs it; null if there is none.")] = None
    transforms: Annotated[
        dict[str, dict[str, Any]], Meta(description="State of transforms that have one, such as the epoch of `route`.")
    ] = {}
    errors: Annotated[list[ConnectorErrorAnswer], Meta(description="Newest errors, the oldest first.")] = []
    history: Annotated[list[StateChangeAnswer], Meta(description="Newest changes of the state, the oldest first.")] = []


class DestinationAnswer(msgspec.Struct, kw_only=True):
    """A topic that a source writes to."""

    stream: str
    topic: str
    circuit: str
    messages_count: int = 0
    partitions_count: int | None = None
    last_error: str | None = None


class ConnectorSampleAnswer(msgspec.Struct, kw_only=True):
    """Progress of a connector at one time."""

    at: str
    state: str
    records_count: int
    records_per_second: float | None = None
    lag: ConnectorLagAnswer | None = None


class ConnectorHistoryAnswer(msgspec.Struct, kw_only=True):
    """Progress over the last hour."""

    interval_seconds: float
    samples: list[ConnectorSampleAnswer]


class ConnectorVersionAnswer(msgspec.Struct, kw_only=True):
    """A version of a configuration; it never changes."""

    number: int
    at: str
    author: str
    comment: str
    origin: Annotated[str, Meta(description="`file`: found in the pipeline file at a start; `http`.")]
    kind: str
    definition: Annotated[
        dict[str, Any] | None,
        Meta(description="Table as in a pipeline file, without secrets; null: the connector was deleted."),
    ]


class ActivationAnswer(msgspec.Struct, kw_only=True):
    """A version that became the active one."""

    at: str
    number: int
    author: str
    comment: str


class ConnectorVersionsAnswer(msgspec.Struct, kw_only=True):
    """The versions of a configuration, the newest first."""

    key: str
    epoch: Annotated[int, Meta(description="Grows with each change; a change can be meant for it alone.")]
    active: int | None
    is_deleted: bool
    is_changeable: Annotated[bool, Meta(description="False: the pipeline file does not allow changes.")]
    versions: list[ConnectorVersionAnswer]
    activations: list[ActivationAnswer]


class EpochQuery(Checked):
    """State that a change is meant for."""

    epoch: Annotated[
        int | None,
        Meta(
            description="Make the change only if this is the epoch of the versions; 0: if there is no such connector."
        ),
    ] = None
    comment: Annotated[str, Meta(description="Reason of a deletion.")] = ""


class NewVersionQuery(Checked):
    """State that a change is meant for, and whether it is only checked."""

    epoch: Annotated[int | None, Meta(description="As of an activation.")] = None
    check: Annotated[bool, Meta(description="Check the definition, and change nothing.")] = False


class NewVersionBody(msgspec.Struct, kw_only=True):
    """A configuration."""

    definition: Annotated[dict[str, Any], Meta(description="Table as in a pipeline file.")]
    kind: Annotated[Literal["source", "sink"] | None, Meta(description="Needed for a new connector.")] = None
    comment: str = ""


class ActivationBody(msgspec.Struct, kw_only=True):
    """Reason of a change."""

    comment: str = ""
