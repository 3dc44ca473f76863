"""Who a call belongs to."""

from __future__ import annotations

from headrace_gateway.grpc.calls import Refused
from headrace_gateway.logins import Logins
from headrace_proto.control.v1 import LoginWithToken
from headrace_proto.errors import Status


class AccessTokens:
    """Knows access tokens; each call is checked anew, so that one that was deleted ends at once."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def user_of(self, token: str) -> int:
        """Return whose access token it is.

        Raises:
            Refused: Nobody's, or it has expired, or its owner may not log in.
        """
        reply = self._logins.with_token(LoginWithToken(token=token))
        if reply.status == Status.RESOURCE_NOT_FOUND:
            # What does not exist is the token, and the caller is nobody.
            raise Refused(Status.INVALID_PERSONAL_ACCESS_TOKEN)
        if reply.status != Status.OK:
            raise Refused(reply.status)
        return reply.user_id
