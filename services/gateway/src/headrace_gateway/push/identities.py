"""Who is at the other end of a connection, and whether that is still so."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace_gateway.http.errors import Refused
from headrace_gateway.logins import Logins, digest_of
from headrace_gateway.ports import MetadataReader
from headrace_gateway.tokens import Bearer, InvalidToken, Tokens
from headrace_proto.control.v1 import LoginWithToken
from headrace_proto.errors import Status


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """Somebody who has shown a good token."""

    user_id: int
    expires_at: int | None
    """Unix seconds; nothing if the token is good for ever."""
    password_hash: str
    """At the time of the login."""
    bearer: Bearer | None
    """The web token, if it was one."""
    access_token_digest: bytes | None
    """Of the access token that it depends on, if it does."""


class Identities:
    """Checks tokens: at once in full, and later, often, whether anything has changed."""

    def __init__(self, tokens: Tokens, logins: Logins, metadata: MetadataReader) -> None:
        self._tokens = tokens
        self._logins = logins
        self._metadata = metadata

    def of(self, token: str) -> Identity:
        """Say who shows a web token of the HTTP interface, or an access token.

        Raises:
            Refused: It is not good.
        """
        # Only the former has dots.
        return self._of_web_token(token) if "." in token else self._of_access_token(token)

    def is_good(self, identity: Identity) -> bool:
        """Whether the identity holds: nothing has expired, was revoked, deleted or changed."""
        if identity.bearer is not None and not self._tokens.is_current(identity.bearer):
            return False
        credentials = self._metadata.credentials_of(identity.user_id)
        if credentials is None or not credentials.is_active:
            return False
        if identity.bearer is not None and credentials.password_hash != identity.password_hash:
            # A token that somebody else made, who has the secret, has no word about the password.
            return self._is_good_still(identity.bearer)
        if identity.access_token_digest is None:
            return True
        token = self._metadata.access_token(identity.access_token_digest)
        if token is None or token.user_id != identity.user_id:
            return False
        return token.expires_at_micros == 0 or token.expires_at_micros > time.time() * 1_000_000

    def _is_good_still(self, bearer: Bearer) -> bool:
        try:
            self._tokens.check(bearer.text)
        except InvalidToken:
            return False
        return True

    def _of_web_token(self, text: str) -> Identity:
        try:
            bearer = self._tokens.check(text)
        except InvalidToken as error:
            raise Refused(Status.INVALID_ACCESS_TOKEN) from error
        return self._identity(bearer.user_id, bearer.expires_at, bearer, bearer.access_token_digest)

    def _of_access_token(self, text: str) -> Identity:
        reply = self._logins.with_token(LoginWithToken(token=text))
        if reply.status != Status.OK:
            raise Refused(reply.status)
        digest = digest_of(text)
        token = self._metadata.access_token(digest)
        expires_at = token.expires_at_micros // 1_000_000 if token is not None else 0
        return self._identity(reply.user_id, expires_at or None, None, digest)

    def _identity(
        self, user_id: int, expires_at: int | None, bearer: Bearer | None, access_token_digest: bytes | None
    ) -> Identity:
        credentials = self._metadata.credentials_of(user_id)
        if credentials is None:
            raise Refused(Status.UNAUTHENTICATED)
        return Identity(
            user_id=user_id,
            expires_at=expires_at,
            password_hash=credentials.password_hash,
            bearer=bearer,
            access_token_digest=access_token_digest,
        )
