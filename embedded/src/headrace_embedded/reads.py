"""Linearizable reads, from the replica in the same process."""

from __future__ import annotations

from headrace_metadata.applied_state import AccessTokenCredentials, AppliedState, Credentials
from headrace_proto.metadata.v1 import Transaction


class DirectReads:
    """Answers at once: the local state contains every acknowledged command."""

    def __init__(self, state: AppliedState) -> None:
        self._state = state

    async def credentials_of(self, user_id: int) -> Credentials | None:
        """Return the credentials of a user; None if the user does not exist."""
        return self._state.credentials_of(user_id)

    async def credentials_named(self, username: str) -> Credentials | None:
        """Return the credentials of the user with this name; None if there is none."""
        return self._state.credentials_named(username)

    async def access_token(self, digest: bytes) -> AccessTokenCredentials | None:
        """Return the access token whose text has this SHA-256 digest, expired or not; None if there is none."""
        return self._state.access_token(digest)

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return the last transaction committed under a name, if any."""
        return self._state.transaction(stream_id, name)
