"""JSON Web Tokens, which a login issues and every other request carries.

A token identifies the user at the time of the login. Every request checks that it is still valid: the user must exist
and be active, the password must be the one of the login, and an access token used instead must still be valid.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import jwt

from headrace_gateway.access.access_tokens import AccessToken, AccessTokens
from headrace_gateway.access.token_config import JwtConfig
from headrace_gateway.ports import AccountDirectory, Revocations
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE
from headrace_proto.errors import Status

Seconds = Callable[[], float]
"""Returns seconds since the Unix epoch."""

Reach = Callable[[int], Awaitable[None]]
"""Returns when this gateway has a version of the catalog."""

_REQUIRED: Final = ["jti", "iss", "aud", "sub", "iat", "nbf", "exp"]
# Private claims: the version of the password at the login, the access token used instead of a password, and the catalog
# version at which the user was looked up.
_PASSWORD: Final = "pwd"  # noqa: S105 - the name of a claim
_ACCESS_TOKEN: Final = "pat"  # noqa: S105 - the name of a claim
_CATALOG: Final = "cat"
# Burst of revocations of one user, in seconds of the rate limit.
_BURST_SECONDS: Final = 100


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token."""

    text: str
    expires_at: int
    """Unix seconds."""


@dataclass(frozen=True, slots=True, repr=False)
class Bearer:
    """Identity from a valid login token."""

    text: str
    user_id: int
    token_id: str
    expires_at: int
    """Unix seconds."""
    password_version: int | None
    """Password version of the user at the issue; None: the token was issued by another holder of the secret."""
    access_token: AccessToken | None
    """Access token that the login token was issued for, if any."""


class InvalidToken(Exception):
    """The token is malformed, expired, revoked, foreign, or of a user who may no longer log in."""


class EndedToken(InvalidToken):
    """The token was valid once: it has expired, was revoked, or its user may no longer log in."""


class NotKnownYet(InvalidToken):
    """The token was issued by a gateway with a newer catalog than this one has.

    Attributes:
        version: Catalog version from which on the token can be validated.
    """

    def __init__(self, reason: str, version: int) -> None:
        super().__init__(reason)
        self.version = version


class TooManyRevocations(Exception):
    """A user exchanges or revokes more tokens than may be remembered.

    Attributes:
        retry_after_seconds: Time after which to retry.
    """

    def __init__(self, retry_after_seconds: float) -> None:
        super().__init__(retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds


async def everything_is_known(_version: int) -> None:
    """Return at once: a single gateway has all the knowledge with which it issued a token."""


class Tokens:
    """Issues and validates login tokens."""

    def __init__(
        self,
        config: JwtConfig,
        *,
        accounts: AccountDirectory,
        access_tokens: AccessTokens,
        revocations: Revocations,
        shared_keys: Sequence[bytes] = (),
        reach: Reach = everything_is_known,
        now: Seconds = time.time,
    ) -> None:
        """Set up the keys.

        Args:
            config: Settings.
            accounts: Source of users, to check that a user may still log in.
            access_tokens: Validates access tokens that login tokens were issued for.
            revocations: Revoked login tokens.
            shared_keys: Keys of the cluster. The first one signs where the settings have no secret, all are accepted;
                empty: a random key is used.
            reach: Waits for a version of the catalog.
            now: Clock.
        """
        self._config = config
        self._reach = reach
        self._accounts = accounts
        self._access_tokens = access_tokens
        self._revocations = revocations
        self._now = now
        encoding, decoding = config.encoding_secret or config.decoding_secret, config.decoding_secret
        keys = (config.key(encoding),) if encoding else tuple(shared_keys) or (secrets.token_bytes(64),)
        self._pace = _Pace(config.max_revocations_per_second)
        self._encoding_key = keys[0]
        self._decoding_keys = (config.key(decoding),) if decoding else keys

    def issue(self, user_id: int, password_version: int | None, access_token: AccessToken | None = None) -> Issued:
        """Issue a token to a user who has just logged in.

        Args:
            user_id: Id of the user.
            password_version: Password version at the login: a password change ends the token. None: the current
                version.
            access_token: Access token used for the login, if any: its deletion ends the token.

        Raises:
            InvalidToken: The user was deleted meanwhile.
        """
        config, now = self._config, int(self._now())
        user = self._accounts.user(user_id)
        if user is None:
            raise InvalidToken("the user no longer exists")
        expires_at = now + max(1, int(config.access_token_expiry.seconds))
        claims: dict[str, Any] = {
            "jti": str(_uuid7(self._now())),
            "iss": config.issuer,
            "aud": config.audience,
            "sub": str(user_id),
            "iat": now,
            "nbf": now + int(config.not_before.seconds),
            "exp": expires_at,
            _PASSWORD: user.password_version if password_version is None else password_version,
            _CATALOG: self._accounts.version,
        }
        if access_token is not None:
            claims[_ACCESS_TOKEN] = [access_token.name, access_token.incarnation, access_token.expires_at_micros]
        return Issued(jwt.encode(claims, self._encoding_key, config.algorithm), expires_at)

    async def identify(self, text: str) -> Bearer:
        """Return the identity of a token; wait for the catalog version at which it was issued.

        Raises:
            InvalidToken: The token is invalid or no longer valid.
            NoAnswer: The catalog version did not arrive in time.
        """
        try:
            return self.check(text)
        except NotKnownYet as error:
            await self._reach(error.version)
            return self.check(text)

    def check(self, text: str) -> Bearer:
        """Return the identity of a token, without waiting.

        Raises:
            InvalidToken: The token is invalid or no longer valid; `NotKnownYet` if a newer catalog may change that.
        """
        config = self._config
        try:
            claims = self._claims(text)
        except (jwt.InvalidTokenError, ValueError) as error:
            # Text that is not ASCII raises an exception that is not the library's own.
            raise InvalidToken(str(error)) from error
        expires_at = _expiry(claims)
        if expires_at + config.clock_skew.seconds <= self._now():
            raise EndedToken("the token has expired")
        if self._revocations.holds(claims["jti"]):
            raise EndedToken("the token was revoked")
        user_id = _user_id(claims)
        bearer = Bearer(
            text=text,
            user_id=user_id,
            token_id=claims["jti"],
            expires_at=expires_at,
            password_version=_password_version(claims),
            access_token=_access_token(claims, user_id),
        )
        try:
            self._check_user(bearer)
        except InvalidToken as error:
            known = claims.get(_CATALOG)
            if isinstance(known, int) and known > self._accounts.version:
                raise NotKnownYet(str(error), known) from error
            raise
        return bearer

    def _claims(self, text: str) -> dict[str, Any]:
        *others, last = self._decoding_keys
        for key in others:
            with suppress(jwt.InvalidSignatureError):
                return self._claims_under(key, text)
        return self._claims_under(last, text)

    def _claims_under(self, key: bytes, text: str) -> dict[str, Any]:
        config = self._config
        return jwt.decode(
            text,
            key,
            algorithms=[config.algorithm],
            audience=config.valid_audiences,
            issuer=config.valid_issuers,
            # Expiry is checked below with the clock of this object.
            options={"require": _REQUIRED, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )

    def is_good(self, bearer: Bearer) -> bool:
        """Return whether a token that was validated before is still valid."""
        if bearer.expires_at + self._config.clock_skew.seconds <= self._now():
            return False
        if self._revocations.holds(bearer.token_id):
            return False
        try:
            self._check_user(bearer)
        except InvalidToken:
            return False
        return True

    async def exchange(self, bearer: Bearer) -> Issued:
        """Issue a new token for this one and revoke this one; succeeds once in the whole cluster.

        Raises:
            InvalidToken: The token was revoked meanwhile, or its user was deleted.
            TooManyRevocations: The user exchanges too many tokens.
            NoAnswer: The outcome of the revocation is unknown.
        """
        issued = self.issue(bearer.user_id, bearer.password_version, bearer.access_token)
        if not await self.revoke(bearer):
            raise InvalidToken("the token was revoked")
        return issued

    async def revoke(self, bearer: Bearer) -> bool:
        """Revoke a token, effective at once. Returns whether it was valid until then.

        Raises:
            TooManyRevocations: The user revokes too many tokens.
            NoAnswer: The outcome of the revocation is unknown.
        """
        if self._revocations.holds(bearer.token_id):
            return False
        self._pace.take(bearer.user_id, self._now())
        expired_before = int(self._now() - self._config.clock_skew.seconds) - 1
        return await self._revocations.add(bearer.token_id, bearer.expires_at, expired_before=expired_before)

    def _check_user(self, bearer: Bearer) -> None:
        user = self._accounts.user(bearer.user_id)
        if user is None or user.status != USER_STATUS_ACTIVE:
            raise EndedToken("the user no longer exists or is not active")
        if bearer.password_version is not None and bearer.password_version != user.password_version:
            raise EndedToken("the password has changed since the login")
        if bearer.access_token is not None and self._access_tokens.status_of(bearer.access_token) != Status.OK:
            raise EndedToken("the access token was deleted or has expired since the login")


class _Pace:
    """Rate limit of revocations per user; stores for each user the time at which the burst is fully available again."""

    def __init__(self, per_second: int) -> None:
        self._interval_seconds = 1 / per_second
        self._over_at: dict[int, float] = {}

    def take(self, user_id: int, now: float) -> None:
        """Count one of this user.

        Raises:
            TooManyRevocations: There were too many.
        """
        if self._over_at.get(user_id, now) > now + _BURST_SECONDS:
            # The clock was set back: continue at the new time, with a burst that is used up.
            self._over_at[user_id] = now + _BURST_SECONDS
        over_at = max(self._over_at.get(user_id, now), now) + self._interval_seconds
        excess_seconds = over_at - now - _BURST_SECONDS
        # Sums of small intervals are a little off.
        if excess_seconds > self._interval_seconds / 1000:
            raise TooManyRevocations(excess_seconds)
        if user_id not in self._over_at:
            self._over_at = {user: known for user, known in self._over_at.items() if known > now}
        self._over_at[user_id] = over_at


def _expiry(claims: dict[str, Any]) -> int:
    try:
        return int(claims["exp"])
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidToken("exp is not a number") from error


def _user_id(claims: dict[str, Any]) -> int:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject.isascii() or not subject.isdigit() or int(subject) >= 2**32:
        raise InvalidToken("sub is not a user id")
    return int(subject)


def _password_version(claims: dict[str, Any]) -> int | None:
    version = claims.get(_PASSWORD)
    # Absent if another holder of the secret issued the token, who does not know the password version.
    if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
        raise InvalidToken("pwd is not a password version")
    return version


def _access_token(claims: dict[str, Any], user_id: int) -> AccessToken | None:
    match claims.get(_ACCESS_TOKEN):
        case None:
            return None
        case [str(name), int(incarnation), int(expires_at_micros)]:
            return AccessToken(user_id, name, incarnation, expires_at_micros)
        case _:
            raise InvalidToken("pat is not an access token")


def _uuid7(seconds: float) -> uuid.UUID:
    """A random id that sorts by time (RFC 9562)."""
    number = (int(seconds * 1000) & (2**48 - 1)) << 80 | secrets.randbits(76)
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=number)
