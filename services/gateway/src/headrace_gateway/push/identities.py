"""Who is at the other end of a connection, and whether that is still so."""

from __future__ import annotations

from dataclasses import dataclass

from headrace_gateway.access_tokens import AccessToken
from headrace_gateway.http.errors import Refused
from headrace_gateway.logins import Logins
from headrace_gateway.tokens import Bearer, InvalidToken, Tokens
from headrace_proto.errors import Status


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """Somebody who has shown a good token."""

    user_id: int
    expires_at: int | None
    """Unix seconds; nothing if the token is good for ever."""
    bearer: Bearer | None = None
    """The web token, if it was one."""
    access_token: AccessToken | None = None
    """The access token, if it was one."""


class Identities:
    """Checks tokens: at once in full, and later, often, whether anything has changed."""

    def __init__(self, tokens: Tokens, logins: Logins) -> None:
        self._tokens = tokens
        self._access_tokens = logins.access_tokens

    async def of(self, token: str) -> Identity:
        """Say who shows a web token of the HTTP interface, or an access token.

        Raises:
            Refused: It is not good.
        """
        # Only the former has dots.
        return await self._of_web_token(token) if "." in token else await self._of_access_token(token)

    def is_good(self, identity: Identity) -> bool:
        """Whether the identity holds: nothing has expired, was revoked, deleted or changed."""
        if identity.bearer is not None and not self._tokens.is_good(identity.bearer):
            return False
        return identity.access_token is None or self._access_tokens.status_of(identity.access_token) == Status.OK

    async def _of_web_token(self, text: str) -> Identity:
        try:
            bearer = await self._tokens.identify(text)
        except InvalidToken as error:
            raise Refused(Status.INVALID_ACCESS_TOKEN) from error
        return Identity(bearer.user_id, bearer.expires_at, bearer=bearer)

    async def _of_access_token(self, text: str) -> Identity:
        shown = await self._access_tokens.find(text)
        token = shown.token
        if shown.status != Status.OK or token is None:
            raise Refused(shown.status)
        return Identity(token.user_id, token.expires_at_micros // 1_000_000 or None, access_token=token)
