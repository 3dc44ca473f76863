"""Who a call belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_gateway.grpc.refused import Refused
from headrace_gateway.logins import Logins
from headrace_gateway.tokens import Bearer, InvalidToken, Tokens
from headrace_proto.control.v1 import LoginWithToken
from headrace_proto.errors import Status


@dataclass(frozen=True, slots=True)
class Identity:
    """Whoever has shown something good."""

    user_id: int
    bearer: Bearer | None = None
    """The token of a login; None where something else was shown."""


class Bearers:
    """Knows the tokens of logins, and access tokens. Each call is looked at anew, so what was ended is over at once."""

    def __init__(self, logins: Logins, tokens: Tokens) -> None:
        self._logins = logins
        self._tokens = tokens

    def holder(self, names: Sequence[str]) -> Identity:
        """Return whose certificate this is.

        Args:
            names: What it calls its holder.

        Raises:
            Refused: Nobody's, not one user's, or of one who may not log in.
        """
        reply = self._logins.with_certificate(names)
        if reply.status != Status.OK:
            raise Refused(reply.status, "the certificate is not one of a user who may log in")
        return Identity(reply.user_id)

    def identify(self, text: str) -> Identity:
        """Return whose token this is.

        Raises:
            Refused: Nobody's, or not any more, or its owner may not log in.
        """
        # An access token is base64, which has no dots.
        if "." in text:
            try:
                bearer = self._tokens.check(text)
            except InvalidToken as error:
                raise Refused(Status.INVALID_ACCESS_TOKEN) from error
            return Identity(bearer.user_id, bearer)
        reply = self._logins.with_token(LoginWithToken(token=text))
        if reply.status == Status.RESOURCE_NOT_FOUND:
            # What does not exist is the token, and the caller is nobody.
            raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN)
        if reply.status != Status.OK:
            raise Refused(reply.status)
        return Identity(reply.user_id)
