"""Transforms: what happens to records between a source or a topic and where they go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace_connectors.contract.records import Record
from headrace_settings import Section


class Transform(ABC):
    """Changes, drops or adds records. A record that is changed in place keeps its id, headers and destination."""

    settings_type: ClassVar[type[Section]] = Section
    """Model of the settings, of which the constructor gets an instance."""
    uses_host: ClassVar[bool] = False
    """True if its settings name code or files of the machine: changes over HTTP may use it only if the pipeline file
    allows it.
    """
    is_routing: ClassVar[bool] = False
    """True if it sets destinations. A source has one way to set them: `routing`, or such a transform."""

    async def open(self) -> None:  # noqa: B027 - optional
        """Load what is needed.

        Raises:
            ConnectorError: The connector does not start.
        """

    def begin_batch(self) -> None:  # noqa: B027 - optional
        """Take note that the records of a batch follow.

        What a transform loads while it runs, such as another mapping, takes effect here, so that all records of a batch
        are treated alike.
        """

    @abstractmethod
    def apply(self, record: Record) -> Record | Sequence[Record] | None:
        """Return what goes on in place of a record: itself, others in their order, or nothing.

        Raises:
            InvalidRecord: The record cannot be transformed.
        """

    def report(self) -> Mapping[str, Any]:
        """Describe its state, for the status of the connector, as JSON-like values; nothing if there is none."""
        return {}

    async def close(self) -> None:  # noqa: B027 - optional
        """Release everything. Called once, after an `open` that failed, too."""
