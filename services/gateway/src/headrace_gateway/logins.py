"""Who a connection belongs to.

Statuses in the order in which they are checked, which clients of the binary protocol rely on:
with a password 43, 44, 20000 after too many failures, 42 for an unknown user, 47, 42; with an access token 20, 54, 47.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterable

from headrace_gateway.login_limits import LoginLimits
from headrace_gateway.passwords import Passwords
from headrace_gateway.ports import Clock, MetadataReader
from headrace_proto.control.v1 import LoginWithPassword, LoginWithToken, Reply
from headrace_proto.errors import Status
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES

_log = logging.getLogger(__name__)


class Logins:
    """Checks passwords and access tokens."""

    def __init__(self, *, metadata: MetadataReader, passwords: Passwords, limits: LoginLimits, clock: Clock) -> None:
        self._metadata = metadata
        self._passwords = passwords
        self._limits = limits
        self._clock = clock

    def retry_after_seconds(self, username: str, address: str) -> float:
        """After how long this user is let in from this address again, after too many failures; 0: now."""
        return self._limits.refused_for_micros(username, _host(address), self._clock()) / 1_000_000

    async def with_password(self, login: LoginWithPassword, address: str) -> Reply:
        """Check a username and a password. An unknown user takes as long as a wrong password.

        Args:
            login: What the client sent.
            address: Where it sent it from.
        """
        if len(login.username.encode()) not in USERNAME_BYTES:
            return Reply(status=Status.INVALID_USERNAME)
        if len(login.password) not in PASSWORD_BYTES:
            return Reply(status=Status.INVALID_PASSWORD)
        if self._is_refused(login.username, address):
            return Reply(status=Status.TOO_MANY_LOGIN_ATTEMPTS)
        async with self._passwords.turns:
            # Those that came at the same time have failed meanwhile, and count.
            if self._is_refused(login.username, address):
                return Reply(status=Status.TOO_MANY_LOGIN_ATTEMPTS)
            return await self._verified(login, address)

    async def _verified(self, login: LoginWithPassword, address: str) -> Reply:
        credentials = self._metadata.credentials_named(login.username)
        if credentials is None:
            await self._passwords.verify_for_nobody(login.password)
            return self._failed(login.username, address)
        if not credentials.is_active:
            return Reply(status=Status.USER_INACTIVE)
        if not await self._passwords.verify(credentials.password_hash, login.password):
            return self._failed(login.username, address)

        # Much can have happened in the meantime; the password that was verified must still be the one.
        current = self._metadata.credentials_of(credentials.user_id)
        if current is None or current.password_hash != credentials.password_hash:
            return self._failed(login.username, address)
        if not current.is_active:
            return Reply(status=Status.USER_INACTIVE)
        self._limits.succeeded(login.username, _host(address))
        return Reply(user_id=credentials.user_id)

    def with_token(self, login: LoginWithToken) -> Reply:
        """Check an access token. The session is the one that a password would have given."""
        digest = digest_of(login.token)
        token = self._metadata.access_token(digest)
        if token is None or not hmac.compare_digest(token.digest, digest):
            return Reply(status=Status.RESOURCE_NOT_FOUND)
        if 0 < token.expires_at_micros <= self._clock():
            return Reply(status=Status.PERSONAL_ACCESS_TOKEN_EXPIRED)
        if not token.is_active:
            return Reply(status=Status.USER_INACTIVE)
        return Reply(user_id=token.user_id)

    def with_certificate(self, names: Iterable[str]) -> Reply:
        """Find the user that a certificate which was verified speaks for.

        Args:
            names: Those that the certificate gives its holder. Two active users are as bad as none: which is meant?
        """
        users = (self._metadata.credentials_named(name) for name in names)
        found = {user.user_id for user in users if user is not None and user.is_active}
        return Reply(user_id=found.pop()) if len(found) == 1 else Reply(status=Status.INVALID_CREDENTIALS)

    def _is_refused(self, username: str, address: str) -> bool:
        return self._limits.refused_for_micros(username, _host(address), self._clock()) > 0

    def _failed(self, username: str, address: str) -> Reply:
        self._limits.failed(username, _host(address), self._clock())
        _log.warning("failed login as %r from %s", username, address)
        return Reply(status=Status.INVALID_CREDENTIALS)


def _host(address: str) -> str:
    # A client chooses its port anew with each connection.
    return address.rpartition(":")[0]


def digest_of(token: str) -> bytes:
    """Return what is stored of an access token. It is random enough for a plain digest: there is nothing to guess."""
    return hashlib.sha256(token.encode()).digest()
