"""Authentication of calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_chassis.grpc.status import Refused
from headrace_gateway.access.access_tokens import AccessToken
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.tokens import Bearer, InvalidToken, Tokens
from headrace_proto.errors import Status


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller: user and credential."""

    user_id: int
    bearer: Bearer | None = None
    """Login token; None if another credential was presented."""
    access_token: AccessToken | None = None
    """Access token, if one was presented."""


class Bearers:
    """Authenticates login tokens and access tokens. Every call is checked anew, so revocation takes effect at once."""

    def __init__(self, logins: Logins, tokens: Tokens) -> None:
        self._logins = logins
        self.audit = logins.audit
        self._tokens = tokens

    def holder(self, names: Sequence[str]) -> Identity:
        """Return the user of a certificate.

        Args:
            names: Names in the certificate.

        Raises:
            Refused: The names match no user, several users, or a user who may not log in.
        """
        login = self._logins.with_certificate(names)
        if login.status != Status.OK:
            raise Refused(login.status, "the certificate does not name an active user")
        return Identity(login.user_id)

    async def identify(self, text: str, address: str) -> Identity:
        """Return the user of a token.

        Args:
            text: The token.
            address: Address of the caller.

        Raises:
            Refused: The token is unknown or no longer valid, or its owner may not log in.
        """
        # An access token is base64, which has no dots.
        if "." in text:
            try:
                bearer = await self._tokens.identify(text)
            except InvalidToken as error:
                raise Refused(Status.INVALID_ACCESS_TOKEN) from error
            return Identity(bearer.user_id, bearer)
        presented = await self._logins.presented(text, address)
        _check_access_token(presented.status)
        # A status of 0 implies a known token.
        assert presented.token is not None  # noqa: S101
        return Identity(presented.token.user_id, access_token=presented.token)

    def verify(self, identity: Identity) -> None:
        """Check again that a credential is still valid: a stream may outlast its credential.

        Raises:
            Refused: The credential is no longer valid.
        """
        if identity.bearer is not None and not self._tokens.is_good(identity.bearer):
            raise Refused(Status.INVALID_ACCESS_TOKEN)
        if identity.access_token is not None:
            _check_access_token(self._logins.access_tokens.status_of(identity.access_token))


def _check_access_token(status: Status) -> None:
    if status == Status.RESOURCE_NOT_FOUND:
        # "Not found" refers to the token here: the caller is unauthenticated.
        raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN)
    if status != Status.OK:
        raise Refused(status)
