"""Documents of `headrace connect`, beside the answers of processes with connectors.

docs/schemas has the JSON schemas, which are generated from the types here. A field is never removed or renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict

from headrace_connectors_api import ConnectorAnswer, ConnectorVersionsAnswer, DestinationAnswer


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
        "connect-status": list[ConnectorAnswer],
        "connect-destinations": list[DestinationAnswer],
        "connect-versions": ConnectorVersionsAnswer,
        "connect-activate": ConnectorVersionsAnswer,
        "connect-rollback": ConnectorVersionsAnswer,
        "connect-apply": list[AppliedDocument],
        "connect-plugins": list[PluginDocument],
        "connect-redrive": list[RedriveDocument],
        "connect-test": list[TrialDocument],
        "connect-test-plugin": list[ConformanceDocument],
    }
)
"""Type of the document that each command prints."""
