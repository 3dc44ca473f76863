"""Buffers of responses."""

from __future__ import annotations

from typing import Final

# The spare buffers are not part of the memory of calls; their total size is small.
_SPARES_MAX: Final = 8
_SPARE_BYTES_MAX: Final = 4 * 1024 * 1024


class Spares:
    """Pool of response buffers for reuse: allocating new memory costs more than filling it."""

    def __init__(self) -> None:
        """Start empty."""
        self._spares: list[bytearray] = []

    def take(self) -> bytearray:
        """Return the most recently used buffer; an empty one if there is none."""
        return self._spares.pop() if self._spares else bytearray()

    def give(self, used: bytes | memoryview) -> None:
        """Return an unused buffer to the pool, unless it is too small, too large, or the pool is full."""
        memory = used.obj if isinstance(used, memoryview) else None
        if isinstance(memory, bytearray) and len(memory) <= _SPARE_BYTES_MAX and len(self._spares) < _SPARES_MAX:
            self._spares.append(memory)
