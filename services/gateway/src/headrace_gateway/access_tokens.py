"""Access tokens that somebody shows: each is asked for once, and from then on looked up in the catalogue."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from headrace_gateway.ports import Accounts, Clock, CredentialsReader
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE
from headrace_proto.errors import Status

REMEMBERED_MAX: Final = 10_000
"""Of how many tokens it is known whose they are; of the others it is asked again."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Which token somebody has shown."""

    user_id: int
    name: str
    incarnation: int
    """Tells it from another one of this user and name."""
    expires_at_micros: int
    """Microseconds since the Unix epoch; 0: never."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What came of showing a token."""

    status: Status
    token: AccessToken | None = None
    """If there is one, whether it is good or not."""


class AccessTokens:
    """Knows tokens by their text, and whether they are good."""

    def __init__(
        self,
        *,
        accounts: Accounts,
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
        """Whether it is known whose token this is without asking."""
        return digest_of(text) in self._remembered

    async def find(self, text: str) -> Shown:
        """Say whose token this is. Statuses in the order in which they are checked: 20, 54, 47."""
        digest = digest_of(text)
        remembered = self._remembered.get(digest)
        if remembered is not None:
            status = self.status_of(remembered)
            if status != Status.RESOURCE_NOT_FOUND:
                self._remembered.move_to_end(digest)
                return Shown(status, remembered)
            del self._remembered[digest]
        found = await self._credentials.access_token(digest)
        if found is None or not hmac.compare_digest(found.digest, digest):
            return Shown(Status.RESOURCE_NOT_FOUND)
        token = AccessToken(found.user_id, found.name, found.incarnation, found.expires_at_micros)
        self._remembered[digest] = token
        if len(self._remembered) > self._remembered_max:
            self._remembered.popitem(last=False)
        return Shown(self.status_of(token), token)

    def status_of(self, token: AccessToken) -> Status:
        """Say whether a token that was shown before is still good: 20, 54, 47 if it is not."""
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
    """Return what is stored of an access token. It is random enough for a plain digest: there is nothing to guess."""
    return hashlib.sha256(token.encode()).digest()
