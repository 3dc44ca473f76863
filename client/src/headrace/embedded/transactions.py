"""What was committed under a name, from the replica in the same process."""

from __future__ import annotations

from headrace_metadata.applied_state import AppliedState
from headrace_proto.metadata.v1 import Transaction


class DirectTransactions:
    """Answers at once: the state holds every command that anybody was answered."""

    def __init__(self, state: AppliedState) -> None:
        self._state = state

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return what was committed last under a name, if anything was."""
        return self._state.transaction(stream_id, name)
