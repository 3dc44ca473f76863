"""Documents of `headrace connect`.

docs/schemas has the JSON schemas, which are generated from the types here. A field is never removed or renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NotRequired, TypedDict


class StateChangeDocument(TypedDict):
    """A change of the state of a connector."""

    at: str
    """Time in RFC 3339."""
    state: str
    reason: str | None


class DroppedDocument(TypedDict):
    """Numbers of records that were not stored."""

    refused: dict[str, int]
    """Records that were not admitted, by reason."""
    unmatched: dict[str, int]
    """Records without a destination, by what happened to them."""


class TopicReadDocument(TypedDict):
    """A topic that a sink reads."""

    stream: str
    topic: str


class LagDocument(TypedDict):
    """Distance of a connector from the end of what it reads."""

    behind: int
    unit: Literal["bytes", "messages", "rows"]


class FailureDocument(TypedDict):
    """An error of a connector. Times are in RFC 3339."""

    first_at: str
    at: str
    """Time of the last repetition."""
    code: str | None
    message: str
    count: int
    """Number of repetitions without another error in between."""


class ConnectorDocument(TypedDict):
    """A connector of `connect status`. Times are in RFC 3339."""

    key: str
    """Name in the pipeline file."""
    kind: Literal["source", "sink"]
    plugin: str
    runs_in: NotRequired[str | None]
    """Process that runs it, if several share the connectors: host and process id. None: none does."""
    state: Literal["starting", "running", "degraded", "stopping", "stopped", "standby", "error"]
    process_id: NotRequired[int | None]
    """Process of a connector that has one of its own; None: it does not run."""
    restarts_count: NotRequired[int]
    """Number of times that this process was started again."""
    is_routed: NotRequired[bool]
    """True if records of a source have destinations of their own."""
    destinations_count: NotRequired[int]
    """Number of destinations of a source."""
    dropped: NotRequired[DroppedDocument]
    """Records that a source has dropped."""
    topics: NotRequired[list[TopicReadDocument]]
    """Topics that a sink reads."""
    group: NotRequired[str]
    """Consumer group of a sink."""
    invalid_count: NotRequired[int]
    """Messages that a sink could not decode, transform or write."""
    dead_letters_count: NotRequired[int]
    """Messages that a sink has sent to a dead-letter topic."""
    transforms: NotRequired[dict[str, dict[str, Any]]]
    """State of transforms that have one, such as the epoch of `route`."""
    records_per_second: NotRequired[float | None]
    """None: not known yet."""
    lag: NotRequired[LagDocument | None]
    """None: not known."""
    errors: NotRequired[list[FailureDocument]]
    """Newest errors, the oldest first."""
    error_code: str | None
    last_error: str | None
    last_error_at: str | None
    consecutive_failures: int
    """Failures since the last committed batch."""
    batches_count: int
    """Batches that were stored and committed."""
    records_count: int
    """Records in them that were stored."""
    last_commit_at: str | None
    last_abandon_at: str | None
    last_abandoned: str | None
    """Position that was given up to."""
    history: list[StateChangeDocument]


class DestinationDocument(TypedDict):
    """A topic of `connect destinations`."""

    stream: str
    topic: str
    circuit: str
    """State of the circuit breaker; `open`: records are refused because the destination keeps failing."""
    partitions_count: int | None
    """None if the topic is not known to exist."""
    messages_count: int
    """Messages that were stored in this run."""
    last_error: str | None


class VersionDocument(TypedDict):
    """A version of a configuration, which never changes."""

    number: int
    at: str
    """Time in RFC 3339."""
    author: str
    comment: str
    origin: Literal["file", "http"]
    """`file`: found in the pipeline file at a start."""
    kind: Literal["source", "sink", "mapping"]
    definition: dict[str, Any] | None
    """Table as in a pipeline file, without secrets; None: a deletion."""


class ActivationDocument(TypedDict):
    """A version that became the active one."""

    at: str
    number: int
    author: str
    comment: str


class VersionsDocument(TypedDict):
    """Versions of `connect versions`, `activate` and `rollback`."""

    key: str
    epoch: int
    """Number of changes of the active version."""
    active: int | None
    is_deleted: bool
    is_changeable: bool
    """False: the pipeline file does not allow changes."""
    versions: list[VersionDocument]
    """The newest first."""
    activations: list[ActivationDocument]
    """The newest first."""


class AppliedDocument(TypedDict):
    """A table of `connect apply`."""

    kind: Literal["source", "sink", "mapping"]
    key: str
    action: Literal["created", "changed", "unchanged"]
    version: int | None
    """Version that was made; None: none."""


class PluginDocument(TypedDict):
    """A plugin of `connect plugins`."""

    kind: Literal["source", "sink", "transform", "codec"]
    name: str
    distribution: str
    version: str
    """Version of the distribution."""
    contract: int
    """Version of the contract that the plugin is written for."""
    is_usable: bool
    """False if it is written for another version of the contract than that of this release."""


class ConformanceDocument(TypedDict):
    """A rule of `connect test-plugin`."""

    kind: Literal["source", "sink", "transform", "codec"]
    name: str
    """Name of the plugin."""
    rule: str
    """Name of the rule."""
    text: str
    """The rule."""
    result: Literal["passed", "failed", "not_checked"]
    reason: str | None
    """Description of the violation, or why the rule was not checked."""


class TopicNameDocument(TypedDict):
    """A topic."""

    stream: str
    topic: str


class TriedRecordDocument(TypedDict):
    """A record of `connect test`."""

    outcome: Literal["sent", "dropped", "refused", "written", "invalid"]
    """Outcome of the record if the connector ran."""
    stream: str | None
    topic: str | None
    """Topic that a source sends it to, or that a sink has read it from."""
    partition: int | None
    """Partition of the message; of a source the one that its routing names, null: by key, or any."""
    key: str | None
    payload: str
    reason: str | None
    """Reason why it would not be sent or written."""
    offset: int | None
    """Offset of the message that a sink has read."""


class TrialDocument(TypedDict):
    """A connector of `connect test`."""

    key: str
    """Name in the pipeline file."""
    kind: Literal["source", "sink"]
    plugin: str
    error: str | None
    """Reason why it could not be tried."""
    warnings: list[str]
    """Fields that the settings name and no record has."""
    records: list[TriedRecordDocument]
    new_topics: list[TopicNameDocument]
    """Topics that do not exist: those that a source would create, or that a sink reads when a source has created them.
    """


class RedriveDocument(TypedDict):
    """Letters of `connect redrive` with one reason and one destination."""

    reason: str
    stream: str | None
    """None: they stay in the dead-letter topic."""
    topic: str | None
    count: int


DOCUMENTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "connect-status": list[ConnectorDocument],
        "connect-destinations": list[DestinationDocument],
        "connect-versions": VersionsDocument,
        "connect-activate": VersionsDocument,
        "connect-rollback": VersionsDocument,
        "connect-apply": list[AppliedDocument],
        "connect-plugins": list[PluginDocument],
        "connect-redrive": list[RedriveDocument],
        "connect-test": list[TrialDocument],
        "connect-test-plugin": list[ConformanceDocument],
    }
)
"""Type of the document that each command prints."""
