"""Transforms: what happens to records between a source or a topic and where they go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from headrace_connectors.contract.records import Record
from headrace_settings import Section


class Transform(ABC):
    """Changes, drops or adds records. A record that is changed in place keeps its id, headers and destination."""

    settings_type: ClassVar[type[Section]] = Section
    """Model of the settings, of which the constructor gets an instance."""
    is_routing: ClassVar[bool] = False
    """True if it sets destinations. A source has one way to set them: `routing`, or such a transform."""

    async def open(self) -> None:  # noqa: B027 - optional
        """Load what is needed.

        Raises:
            ConnectorError: The connector does not start.
        """

    @abstractmethod
    def apply(self, record: Record) -> Record | Sequence[Record] | None:
        """Return what goes on in place of a record: itself, others in their order, or nothing.

        Raises:
            InvalidRecord: The record cannot be transformed.
        """
