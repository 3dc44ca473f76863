"""Users, passwords, access tokens and revoked logins: records, look-ups, and deltas of changes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from headrace_metadata.state_machine.context import Refused
from headrace_proto.catalog.v1 import AccessToken, AccessTokenKey, Delta, RevokedLogin, User
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import TokenRecord


class Accounts:
    """All users. Records are replaced and never changed in place.

    Hashes and digests are not part of the deltas, which are public.
    """

    def __init__(self, changes: list[Delta]) -> None:
        """Start empty.

        Args:
            changes: List to which every change of the catalog is appended, in order.
        """
        self._changes = changes
        self._users: dict[int, User] = {}
        self._user_ids: dict[str, int] = {}
        self._password_hashes: dict[int, str] = {}
        self._tokens: dict[int, dict[str, TokenRecord]] = {}
        self._tokens_by_digest: dict[bytes, TokenRecord] = {}
        self._revoked_logins: dict[bytes, RevokedLogin] = {}
        # Heap of expiry and digest of the revoked logins.
        self._revoked_until: list[tuple[int, bytes]] = []
        # Never decreases: the permissions of a deleted user are never inherited through its id.
        self.next_user_id = 0

    def user(self, user_id: int) -> User:
        """Return a user.

        Raises:
            Refused: 20, the user does not exist.
        """
        try:
            return self._users[user_id]
        except KeyError:
            raise Refused(Status.RESOURCE_NOT_FOUND) from None

    def users(self) -> Iterator[User]:
        """Iterate over the users, ascending by id."""
        return (self._users[user_id] for user_id in sorted(self._users))

    def find_user(self, user_id: int) -> User | None:
        """Return a user; None if the user does not exist."""
        return self._users.get(user_id)

    def user_id_named(self, username: str) -> int | None:
        """Return the id of the user with this name; None if there is none."""
        return self._user_ids.get(username)

    def password_hash(self, user_id: int) -> str:
        """Return the hash of an existing user's password."""
        return self._password_hashes[user_id]

    def token(self, user_id: int, name: str) -> TokenRecord | None:
        """Return a user's access token with this name; None if there is none."""
        return self._tokens.get(user_id, {}).get(name)

    def token_with_digest(self, digest: bytes) -> TokenRecord | None:
        """Return the access token with this digest; None if there is none."""
        return self._tokens_by_digest.get(digest)

    def tokens_count(self, user_id: int) -> int:
        """Return the number of access tokens of a user, including expired ones."""
        return len(self._tokens.get(user_id, {}))

    def tokens(self) -> Iterator[TokenRecord]:
        """Iterate over all access tokens, ascending by user id, then by name."""
        for user_id in sorted(self._tokens):
            names = self._tokens[user_id]
            yield from (names[name] for name in sorted(names))

    def put_user(self, user: User) -> None:
        """Add a user, or replace the one with its id."""
        previous = self._users.get(user.id)
        if previous is not None:
            del self._user_ids[previous.username]
        self._users[user.id] = user
        self._user_ids[user.username] = user.id
        self._changes.append(Delta(user_put=user))

    def put_password_hash(self, user_id: int, password_hash: str) -> None:
        """Set the password hash of an existing user. Makes no delta because hashes are not public."""
        self._password_hashes[user_id] = password_hash

    def remove_user(self, user: User) -> None:
        """Remove a user with its tokens, as one delta."""
        del self._users[user.id]
        del self._user_ids[user.username]
        del self._password_hashes[user.id]
        for token in self._tokens.pop(user.id, {}).values():
            del self._tokens_by_digest[token.digest]
        self._changes.append(Delta(user_deleted=user.id))

    def put_token(self, token: TokenRecord) -> None:
        """Add an access token whose name (of its user) and digest are not in use."""
        self._tokens.setdefault(token.user_id, {})[token.name] = token
        self._tokens_by_digest[token.digest] = token
        self._changes.append(Delta(access_token_put=public_token(token)))

    def remove_token(self, token: TokenRecord) -> None:
        """Remove an access token."""
        names = self._tokens[token.user_id]
        del names[token.name]
        if not names:
            del self._tokens[token.user_id]
        del self._tokens_by_digest[token.digest]
        self._changes.append(Delta(access_token_deleted=AccessTokenKey(user_id=token.user_id, name=token.name)))

    def revoked_logins(self) -> Iterator[RevokedLogin]:
        """Iterate over the revoked logins, ascending by digest."""
        return (self._revoked_logins[digest] for digest in sorted(self._revoked_logins))

    def is_login_revoked(self, digest: bytes) -> bool:
        """Return whether a login is recorded as revoked."""
        return digest in self._revoked_logins

    def next_forgotten_at_micros(self) -> int | None:
        """Return the expiry of the first revoked login to expire, if any."""
        return self._revoked_until[0][0] if self._revoked_until else None

    def put_revoked_login(self, login: RevokedLogin) -> None:
        """Record a revoked login; if it is already recorded, the first expiry is kept."""
        if login.digest in self._revoked_logins:
            return
        self._revoked_logins[login.digest] = login
        heapq.heappush(self._revoked_until, (login.expires_at_micros, login.digest))
        self._changes.append(Delta(revoked_login_put=login))

    def forget_logins(self, now_micros: int) -> None:
        """Remove the revoked logins that have expired."""
        while self._revoked_until and self._revoked_until[0][0] <= now_micros:
            _, digest = heapq.heappop(self._revoked_until)
            del self._revoked_logins[digest]
            self._changes.append(Delta(revoked_login_deleted=digest))

    def copy(self, changes: list[Delta]) -> Accounts:
        """Return independent accounts with the same records."""
        other = Accounts(changes)
        other._users = dict(self._users)
        other._user_ids = dict(self._user_ids)
        other._password_hashes = dict(self._password_hashes)
        other._tokens = {user_id: dict(names) for user_id, names in self._tokens.items()}
        other._tokens_by_digest = dict(self._tokens_by_digest)
        other._revoked_logins = dict(self._revoked_logins)
        other._revoked_until = list(self._revoked_until)
        other.next_user_id = self.next_user_id
        return other


def public_token(token: TokenRecord) -> AccessToken:
    """Return the part of a token's record that the catalog contains."""
    return AccessToken(
        user_id=token.user_id,
        name=token.name,
        expires_at_micros=token.expires_at_micros,
        incarnation=token.incarnation,
    )
