"""Who a call belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_gateway.access_tokens import AccessToken
from headrace_gateway.logins import Logins
from headrace_gateway.tokens import Bearer, InvalidToken, Tokens
from headrace_proto.errors import Status
from headrace_shards.grpc_refusals import Refused


@dataclass(frozen=True, slots=True)
class Identity:
    """Whoever has shown something good."""

    user_id: int
    bearer: Bearer | None = None
    """The token of a login; None where something else was shown."""
    access_token: AccessToken | None = None
    """Where that was shown."""


class Bearers:
    """Knows the tokens of logins, and access tokens. Each call is looked at anew, so what was ended is over at once."""

    def __init__(self, logins: Logins, tokens: Tokens) -> None:
        self._logins = logins
        self.audit = logins.audit
        self._tokens = tokens

    def holder(self, names: Sequence[str]) -> Identity:
        """Return whose certificate this is.

        Args:
            names: What it calls its holder.

        Raises:
            Refused: Nobody's, not one user's, or of one who may not log in.
        """
        login = self._logins.with_certificate(names)
        if login.status != Status.OK:
            raise Refused(login.status, "the certificate is not one of a user who may log in")
        return Identity(login.user_id)

    async def identify(self, text: str, address: str) -> Identity:
        """Return whose token this is.

        Args:
            text: The token.
            address: Where it comes from.

        Raises:
            Refused: Nobody's, or not any more, or its owner may not log in.
        """
        # An access token is base64, which has no dots.
        if "." in text:
            try:
                bearer = await self._tokens.identify(text)
            except InvalidToken as error:
                raise Refused(Status.INVALID_ACCESS_TOKEN) from error
            return Identity(bearer.user_id, bearer)
        shown = await self._logins.shown(text, address)
        _check_access_token(shown.status)
        # Whose it is has been said with a status of 0.
        assert shown.token is not None  # noqa: S101
        return Identity(shown.token.user_id, access_token=shown.token)

    def verify(self, identity: Identity) -> None:
        """Look again whether what somebody has shown before is good: a stream may last longer than that.

        Raises:
            Refused: It is not any more.
        """
        if identity.bearer is not None and not self._tokens.is_good(identity.bearer):
            raise Refused(Status.INVALID_ACCESS_TOKEN)
        if identity.access_token is not None:
            _check_access_token(self._logins.access_tokens.status_of(identity.access_token))


def _check_access_token(status: Status) -> None:
    if status == Status.RESOURCE_NOT_FOUND:
        # What does not exist is the token, and the caller is nobody.
        raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN)
    if status != Status.OK:
        raise Refused(status)
