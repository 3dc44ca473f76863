"""Validation of personal access tokens: the first use asks the metadata service, later uses read the catalog."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from headrace_gateway.ports import AccountDirectory, Clock, CredentialsReader
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE
from headrace_proto.errors import Status

REMEMBERED_MAX: Final = 10_000
"""Maximum number of token digests whose owner is cached; any other token is looked up at the metadata service again."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Key of an access token."""

    user_id: int
    name: str
    incarnation: int
    """Incarnation, which distinguishes tokens of the same user and name."""
    expires_at_micros: int
    """Expiry in microseconds since the Unix epoch; 0: never."""


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """Result of presenting a token."""

    status: Status
    token: AccessToken | None = None
    """The token, if the text belongs to one, valid or not."""


class AccessTokens:
    """Finds access tokens by their text and validates them."""

    def __init__(
        self,
        *,
        accounts: AccountDirectory,
        credentials: CredentialsReader,
        clock: Clock,
        remembered_max: int = REMEMBERED_MAX,
    ) -> None:
        self._accounts = accounts
        self._credentials = credentials
        self._clock = clock
        self._remembered_max = remembered_max
        self._remembered: OrderedDict[bytes, AccessToken] = OrderedDict()

    def remembers(self, text: str) -> bool:
        """Return whether the owner of this token is cached, so that no request to the metadata service is needed."""
        return digest_of(text) in self._remembered

    async def find(self, text: str) -> PresentedToken:
        """Return the owner of a token. Statuses in the order of the checks: 20, 54, 47."""
        digest = digest_of(text)
        remembered = self._remembered.get(digest)
        if remembered is not None:
            status = self.status_of(remembered)
            if status != Status.RESOURCE_NOT_FOUND:
                self._remembered.move_to_end(digest)
                return PresentedToken(status, remembered)
            del self._remembered[digest]
        found = await self._credentials.access_token(digest)
        if found is None or not hmac.compare_digest(found.digest, digest):
            return PresentedToken(Status.RESOURCE_NOT_FOUND)
        token = AccessToken(found.user_id, found.name, found.incarnation, found.expires_at_micros)
        self._remembered[digest] = token
        if len(self._remembered) > self._remembered_max:
            self._remembered.popitem(last=False)
        return PresentedToken(self.status_of(token), token)

    def status_of(self, token: AccessToken) -> Status:
        """Return the status of a token presented earlier: success, or 20, 54, 47 if it is no longer valid."""
        record = self._accounts.token_of(token.user_id, token.name)
        if record is None or record.incarnation != token.incarnation:
            return Status.RESOURCE_NOT_FOUND
        if 0 < token.expires_at_micros <= self._clock():
            return Status.PERSONAL_ACCESS_TOKEN_EXPIRED
        user = self._accounts.user(token.user_id)
        if user is None or user.status != USER_STATUS_ACTIVE:
            return Status.USER_INACTIVE
        return Status.OK


def digest_of(token: str) -> bytes:
    """Return the stored digest of an access token. A plain digest suffices because the token is random."""
    return hashlib.sha256(token.encode()).digest()
