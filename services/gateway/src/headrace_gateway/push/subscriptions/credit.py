"""Flow control of a subscription by credit."""

from __future__ import annotations


class Credit:
    """Credit in messages and bytes. Both must be positive to send; the last message may exceed the bytes."""

    def __init__(self, *, messages_max: int, bytes_max: int) -> None:
        """Start without credit.

        Args:
            messages_max: Maximum credit in messages.
            bytes_max: Maximum credit in bytes.
        """
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.messages = 0
        self.bytes = 0
        """Credit in bytes; negative after a message larger than the credit."""

    def __bool__(self) -> bool:
        return self.messages > 0 and self.bytes > 0

    def add(self, messages: int, size_bytes: int) -> None:
        """Add credit."""
        self.messages = min(self.messages + messages, self._messages_max)
        self.bytes = min(self.bytes + size_bytes, self._bytes_max)

    def take(self, messages: int, size_bytes: int) -> None:
        """Spend credit."""
        self.messages -= messages
        self.bytes -= size_bytes
