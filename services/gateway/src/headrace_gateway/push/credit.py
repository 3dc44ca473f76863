"""How much a subscription may be sent."""

from __future__ import annotations


class Credit:
    """Messages and bytes. Both have to be there; the last message may take more bytes than there are."""

    def __init__(self, *, messages_max: int, bytes_max: int) -> None:
        """Begin with none.

        Args:
            messages_max: Never becomes more.
            bytes_max: Never becomes more.
        """
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.messages = 0
        self.bytes = 0
        """Negative after a message that was larger than what there was."""

    def __bool__(self) -> bool:
        return self.messages > 0 and self.bytes > 0

    def add(self, messages: int, size_bytes: int) -> None:
        """Let more be sent."""
        self.messages = min(self.messages + messages, self._messages_max)
        self.bytes = min(self.bytes + size_bytes, self._bytes_max)

    def take(self, messages: int, size_bytes: int) -> None:
        """Note what was sent."""
        self.messages -= messages
        self.bytes -= size_bytes
