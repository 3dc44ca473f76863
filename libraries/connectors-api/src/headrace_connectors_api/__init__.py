"""Answers about connectors: those of their processes, of the servers that pass them on, and of `headrace connect`.

A field is never removed or renamed, and one that is added has a default: the process that answers may be older. Values
that may become more are texts. Times are texts in RFC 3339.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class ConnectorLagAnswer(msgspec.Struct, kw_only=True):
    """Distance of a connector from the end of what it reads."""

    behind: int
    unit: Annotated[str, Meta(description="`bytes`, `messages` or `rows`.")]


class StateChangeAnswer(msgspec.Struct, kw_only=True):
    """A change of the state."""

    at: str
    state: str
    reason: str | None = None


class ConnectorErrorAnswer(msgspec.Struct, kw_only=True):
    """An error, with its repetitions."""

    first_at: str
    at: Annotated[str, Meta(description="Time of the last repetition.")]
    code: str | None = None
    message: str
    count: Annotated[int, Meta(description="Repetitions without another error in between.")]


class ReadTopicAnswer(msgspec.Struct, kw_only=True):
    """A topic that a sink reads."""

    stream: str
    topic: str


class DroppedAnswer(msgspec.Struct, kw_only=True):
    """Records of a source that were dropped."""

    refused: Annotated[dict[str, int], Meta(description="Those that were not admitted, by reason.")]
    unmatched: Annotated[dict[str, int], Meta(description="Those without a destination, by treatment.")]


class ConnectorAnswer(msgspec.Struct, kw_only=True):
    """A connector: its state and its progress. Times are texts in RFC 3339."""

    key: Annotated[str, Meta(description="Name in the pipeline file.")]
    kind: Literal["source", "sink"]
    plugin: str
    state: Annotated[
        str,
        Meta(
            description="`starting`, `running`, `degraded`, `stopping`, `stopped`, `standby` or `error`, among others."
        ),
    ]
    records_count: Annotated[int, Meta(description="Records that were stored, or written by a sink.")] = 0
    batches_count: Annotated[int, Meta(description="Batches that were stored and committed.")] = 0
    records_per_second: Annotated[float | None, Meta(description="Null: not known yet.")] = None
    lag: Annotated[ConnectorLagAnswer | None, Meta(description="Null: not known.")] = None
    consecutive_failures: Annotated[int, Meta(description="Failures since the last committed batch.")] = 0
    error_code: str | None = None
    last_error: str | None = None
    last_error_at: str | None = None
    last_commit_at: str | None = None
    last_abandon_at: str | None = None
    last_abandoned: Annotated[str | None, Meta(description="Position that was given up to.")] = None
    is_routed: Annotated[bool, Meta(description="True if records of a source have destinations of their own.")] = False
    destinations_count: Annotated[int | None, Meta(description="Destinations in use; null for a sink.")] = None
    dropped: DroppedAnswer | None = None
    topics: Annotated[list[ReadTopicAnswer], Meta(description="Topics that a sink reads.")] = []
    group: Annotated[str | None, Meta(description="Consumer group of a sink.")] = None
    invalid_count: Annotated[int, Meta(description="Messages that a sink could not decode, transform or write.")] = 0
    dead_letters_count: int | None = None
    process_id: Annotated[int | None, Meta(description="Id of its process, if it has one of its own.")] = None
    restarts_count: Annotated[int, Meta(description="Number of times that this process was started again.")] = 0
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
    circuit: Annotated[
        str,
        Meta(description="Circuit breaker: `closed`, `open` or `half_open`. `open`: it keeps failing, and is refused."),
    ]
    messages_count: Annotated[int, Meta(description="Messages that were stored in this run.")] = 0
    partitions_count: Annotated[int | None, Meta(description="Null: the topic is not known to exist.")] = None
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
    kind: Annotated[str, Meta(description="`source`, `sink` or `mapping`.")]
    definition: Annotated[
        dict[str, Any] | None, Meta(description="Table as in a pipeline file, without secrets; null: a deletion.")
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
    epoch: Annotated[int, Meta(description="Number of changes of the active version; a change can be meant for it.")]
    active: int | None
    is_deleted: bool
    is_changeable: Annotated[bool, Meta(description="False: the pipeline file does not allow changes.")]
    versions: list[ConnectorVersionAnswer]
    activations: list[ActivationAnswer]
