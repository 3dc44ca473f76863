"""Authentication of connections.

Statuses in the order in which they are checked, which clients of the binary protocol rely on: with a password 43, 44,
20000 after too many failures, 42 for an unknown user, 47, 42; with an access token 20, 54, 47.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from headrace_chassis.places import place_of
from headrace_gateway.access.access_tokens import AccessToken, AccessTokens, PresentedToken
from headrace_gateway.access.login_limits import LoginLimits
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.access.turns import Crowded
from headrace_gateway.audit.audit_log import AuditLog
from headrace_gateway.ports import AccountDirectory, Clock, Credentials, CredentialsReader
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE
from headrace_proto.control.v1 import LoginWithPassword, LoginWithToken
from headrace_proto.errors import Status
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Login:
    """Result of a login attempt."""

    status: Status
    user_id: int = 0
    """User id, if the status is 0."""
    password_version: int = 0
    """Password version at the login: a password change ends the login."""
    access_token: AccessToken | None = None
    """Access token used for the login, if any: its deletion ends the login."""


class Logins:
    """Checks passwords, access tokens and the names in certificates."""

    def __init__(
        self,
        *,
        accounts: AccountDirectory,
        credentials: CredentialsReader,
        access_tokens: AccessTokens,
        passwords: Passwords,
        limits: LoginLimits,
        clock: Clock,
        audit: AuditLog | None = None,
    ) -> None:
        self._accounts = accounts
        self._credentials = credentials
        self.access_tokens = access_tokens
        self._passwords = passwords
        self._limits = limits
        self.audit = audit
        self._clock = clock

    def retry_after_seconds(self, username: str, address: str) -> float:
        """Return the seconds after which this user may log in from this address, after too many failures; 0: now."""
        return self._limits.refused_for_micros(username, address, self._clock()) / 1_000_000

    async def with_password(self, login: LoginWithPassword, address: str) -> Login:
        """Check a username and a password. An unknown user takes as long as a wrong password.

        Args:
            login: Request of the client.
            address: Address of the client.
        """
        made = await self._with_password(login, address)
        await self._recorded("login_with_password", made, login.username)
        return made

    async def _with_password(self, login: LoginWithPassword, address: str) -> Login:
        if len(login.username.encode()) not in USERNAME_BYTES:
            return Login(Status.INVALID_USERNAME)
        if len(login.password) not in PASSWORD_BYTES:
            return Login(Status.INVALID_PASSWORD)
        if self._is_refused(login.username, address):
            return Login(Status.TOO_MANY_LOGIN_ATTEMPTS)
        # Read without a turn, here and below: while the metadata service does not answer, others must not wait for one.
        credentials = await self._credentials.credentials_named(login.username)
        if credentials is not None and self._passwords.remembers(credentials.password_hash, login.password):
            # Nothing is hashed, so it waits for no turn.
            if not credentials.is_active:
                return Login(Status.USER_INACTIVE)
            return await self._verified(login, address, credentials)
        try:
            return await self._hashed(login, address, credentials)
        except Crowded:
            return Login(Status.TOO_MANY_LOGIN_ATTEMPTS)

    async def _hashed(self, login: LoginWithPassword, address: str, credentials: Credentials | None) -> Login:
        is_known = credentials is not None and self._limits.knows(login.username, address, self._clock())
        owner = f"user {credentials.user_id}" if credentials is not None and is_known else place_of(address)
        async with self._passwords.turns.of(owner, is_known=is_known):
            # Check again: concurrent attempts may have failed meanwhile.
            if self._is_refused(login.username, address):
                return Login(Status.TOO_MANY_LOGIN_ATTEMPTS)
            if credentials is None:
                await self._passwords.verify_placeholder(login.password)
                return self._failed(login.username, address)
            if not credentials.is_active:
                return Login(Status.USER_INACTIVE)
            if not await self._passwords.verify(credentials.password_hash, login.password):
                return self._failed(login.username, address)
        return await self._verified(login, address, credentials)

    async def _verified(self, login: LoginWithPassword, address: str, credentials: Credentials) -> Login:
        # Read again: the user may have changed during the verification; the verified password must still be the current
        # one.
        current = await self._credentials.credentials_of(credentials.user_id)
        if current is None or current.password_hash != credentials.password_hash:
            return self._failed(login.username, address)
        if not current.is_active:
            return Login(Status.USER_INACTIVE)
        self._limits.succeeded(login.username, address, self._clock())
        return Login(Status.OK, credentials.user_id, credentials.password_version)

    async def with_token(self, login: LoginWithToken, address: str) -> Login:
        """Check an access token. The resulting session is the same as after a login with a password.

        Args:
            login: Request of the client.
            address: Address of the client.
        """
        made = await self._with_token(login, address)
        await self._recorded("login_with_access_token", made)
        return made

    async def _with_token(self, login: LoginWithToken, address: str) -> Login:
        presented = await self.presented(login.token, address)
        token = presented.token
        user = self._accounts.user(token.user_id) if token is not None else None
        if presented.status != Status.OK or token is None or user is None:
            return Login(presented.status if presented.status != Status.OK else Status.RESOURCE_NOT_FOUND)
        return Login(Status.OK, token.user_id, user.password_version, token)

    async def presented(self, text: str, address: str) -> PresentedToken:
        """Return the access token with this text. Unknown tokens are rate-limited, known ones are not.

        Args:
            text: The token.
            address: Address of the client.
        """
        if not self.access_tokens.remembers(text):
            wait_micros = self._limits.token_refused_for_micros(address, self._clock())
            if wait_micros > 0:
                return PresentedToken(Status.TOO_MANY_LOGIN_ATTEMPTS)
        presented = await self.access_tokens.find(text)
        if presented.status == Status.RESOURCE_NOT_FOUND:
            self._limits.token_failed(address, self._clock())
        return presented

    def with_certificate(self, names: Iterable[str]) -> Login:
        """Find the user of a verified certificate.

        Args:
            names: Names in the certificate. Matching two active users is refused as ambiguous.
        """
        users = (self._accounts.user_named(name) for name in names)
        found = {user.id: user for user in users if user is not None and user.status == USER_STATUS_ACTIVE}
        if len(found) != 1:
            return Login(Status.INVALID_CREDENTIALS)
        (user,) = found.values()
        return Login(Status.OK, user.id, user.password_version)

    async def _recorded(self, action: str, made: Login, username: str | None = None) -> None:
        if self.audit is None:
            return
        is_in = made.status == Status.OK
        # Do not record an invalid username: it may be a mistyped password.
        presented = username if made.status != Status.INVALID_USERNAME else None
        user_id = made.user_id if is_in else None
        await self.audit.logged_in(action, made.status, username=presented, user_id=user_id)

    def _is_refused(self, username: str, address: str) -> bool:
        return self._limits.refused_for_micros(username, address, self._clock()) > 0

    def _failed(self, username: str, address: str) -> Login:
        self._limits.failed(username, address, self._clock())
        _log.warning("failed login as %r from %s", username, address)
        return Login(Status.INVALID_CREDENTIALS)
