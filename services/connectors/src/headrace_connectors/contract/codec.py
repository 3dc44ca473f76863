"""Codecs: payloads as bytes, and bytes as payloads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from headrace_connectors.contract.errors import InvalidRecord
from headrace_settings import Section

DECODED_BYTES_MAX: Final = 128 * 2**20
"""Size of a payload in memory, beyond which it is invalid if nothing else is set."""


def too_large(size: int, bytes_max: int) -> InvalidRecord:
    """Return the refusal of a payload that would take too much memory."""
    return InvalidRecord(f"the payload would take about {size} bytes of memory: at most {bytes_max} are allowed")


class Codec(ABC):
    """Encodes the payloads of sources, and decodes those of sinks."""

    settings_type: ClassVar[type[Section]] = Section
    """Model of the settings, of which the constructor gets an instance."""
    uses_host: ClassVar[bool] = False
    """True if its settings name code or files of the machine: changes over HTTP may use it only if the pipeline file
    allows it.
    """

    is_bounded: ClassVar[bool] = False
    """True if `decode_bounded` is overridden, and may run in any thread: large payloads are decoded in others."""

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

    def decode_bounded(self, encoded: bytes, bytes_max: int) -> tuple[Any, int]:
        """Return the payload of a message, and about how much memory it takes.

        A codec whose payloads may be much larger than their bytes overrides it, and finds the size before it allocates.

        Args:
            encoded: The bytes.
            bytes_max: Memory that it may take.

        Raises:
            InvalidRecord: The bytes are not of this form, or would take more.
        """
        if len(encoded) > bytes_max:
            raise too_large(len(encoded), bytes_max)
        return self.decode(encoded), len(encoded)
