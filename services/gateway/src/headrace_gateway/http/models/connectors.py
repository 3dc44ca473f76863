"""Changes of connectors. The answers are those of their processes: `headrace_connectors_api`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace_gateway.json_api.numbers import Checked


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
