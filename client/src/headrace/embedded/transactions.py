"""Committed transactions, from the replica in the same process."""

from __future__ import annotations

from headrace_metadata.applied_state import AppliedState
from headrace_proto.metadata.v1 import Transaction


class DirectTransactions:
    """Answers at once: the local state contains every acknowledged command."""

    def __init__(self, state: AppliedState) -> None:
        self._state = state

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return the last transaction committed under a name, if any."""
        return self._state.transaction(stream_id, name)
