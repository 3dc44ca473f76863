"""Codecs: payloads as bytes, and bytes as payloads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from headrace_settings import Section


class Codec(ABC):
    """Encodes the payloads of sources, and decodes those of sinks."""

    settings_type: ClassVar[type[Section]] = Section
    """Model of the settings, of which the constructor gets an instance."""
    uses_host: ClassVar[bool] = False
    """True if its settings name code or files of the machine: changes over HTTP may use it only if the pipeline file
    allows it.
    """

    @abstractmethod
    def encode(self, payload: Any) -> bytes:
        """Return the payload as bytes.

        Raises:
            InvalidRecord: This payload has no such form.
        """

    @abstractmethod
    def decode(self, encoded: bytes) -> Any:
        """Return the payload of a message.

        Raises:
            InvalidRecord: The bytes are not of this form.
        """
