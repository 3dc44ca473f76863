"""Identity of connections, and its revalidation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace_gateway.access.access_tokens import AccessToken
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.tokens import Bearer, InvalidToken, Tokens
from headrace_gateway.json_api.errors import Refused
from headrace_proto.errors import Status

_WITH_WEB_TOKEN: Final = "login_with_web_token"  # noqa: S105 - the name of an action
_WITH_ACCESS_TOKEN: Final = "login_with_access_token"  # noqa: S105 - likewise


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """Identity of a client with a valid token."""

    user_id: int
    expires_at: int | None
    """Expiry in Unix seconds; None if the token never expires."""
    bearer: Bearer | None = None
    """The login token, if one was presented."""
    access_token: AccessToken | None = None
    """The access token, if one was presented."""

    @property
    def action(self) -> str:
        """Login method, for the audit trail."""
        return _WITH_WEB_TOKEN if self.bearer is not None else _WITH_ACCESS_TOKEN


class Identities:
    """Validates tokens: fully at login, and cheaply at each revalidation."""

    def __init__(self, tokens: Tokens, logins: Logins) -> None:
        self.audit = logins.audit
        self._tokens = tokens
        self._logins = logins
        self._access_tokens = logins.access_tokens

    async def of(self, token: str, address: str) -> Identity:
        """Return the identity of a login token or an access token.

        Invalid tokens are recorded here; a successful login is recorded by `record` after all other checks.

        Args:
            token: Presented token.
            address: Address of the client.

        Raises:
            Refused: The token is invalid.
        """
        # Only login tokens contain dots.
        is_web_token = "." in token
        try:
            return await (self._of_web_token(token) if is_web_token else self._of_access_token(token, address))
        except Refused as error:
            if self.audit is not None:
                action = _WITH_WEB_TOKEN if is_web_token else _WITH_ACCESS_TOKEN
                await self.audit.logged_in(action, error.status, username=None, user_id=None)
            raise

    async def record(self, identity: Identity, result: int | str) -> None:
        """Record the result of a login with a valid token."""
        if self.audit is not None:
            await self.audit.logged_in(identity.action, result, username=None, user_id=identity.user_id)

    def is_good(self, identity: Identity) -> bool:
        """Return whether the identity is still valid: nothing has expired, was revoked, deleted or changed."""
        if identity.bearer is not None and not self._tokens.is_good(identity.bearer):
            return False
        return identity.access_token is None or self._access_tokens.status_of(identity.access_token) == Status.OK

    async def _of_web_token(self, text: str) -> Identity:
        try:
            bearer = await self._tokens.identify(text)
        except InvalidToken as error:
            raise Refused(Status.INVALID_ACCESS_TOKEN) from error
        return Identity(bearer.user_id, bearer.expires_at, bearer=bearer)

    async def _of_access_token(self, text: str, address: str) -> Identity:
        presented = await self._logins.presented(text, address)
        token = presented.token
        if presented.status != Status.OK or token is None:
            raise Refused(presented.status)
        return Identity(token.user_id, token.expires_at_micros // 1_000_000 or None, access_token=token)
