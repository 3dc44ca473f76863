"""JSON Web Tokens: what a login gives and every other request carries.

A token says who somebody was at login. Whether that is still so is looked up with every request: the user must exist
and be active, the password must be the one of the login, and an access token that was used instead must still be good.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jwt

from headrace_gateway.ports import MetadataReader
from headrace_gateway.revocations import Revocations
from headrace_gateway.token_config import JwtConfig

Seconds = Callable[[], float]
"""Returns seconds since the Unix epoch."""

_REQUIRED: Final = ["jti", "iss", "aud", "sub", "iat", "nbf", "exp"]
# Of ours alone: the password of the login, and the access token that was used instead of it.
_PASSWORD: Final = "pwd"  # noqa: S105 - the name of a claim
_ACCESS_TOKEN: Final = "pat"  # noqa: S105 - the name of a claim


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token."""

    text: str
    expires_at: int
    """Unix seconds."""


@dataclass(frozen=True, slots=True, repr=False)
class Bearer:
    """Whoever has shown a good token."""

    text: str
    user_id: int
    token_id: str
    expires_at: int
    """Unix seconds."""
    access_token_digest: bytes | None
    """Of the access token that it was given for, if it was."""


class InvalidToken(Exception):
    """It is malformed, expired, revoked, not ours, or of somebody who may not come in any more."""


class Tokens:
    """Gives tokens and checks them."""

    def __init__(
        self, config: JwtConfig, *, metadata: MetadataReader, revocations: Revocations, now: Seconds = time.time
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._revocations = revocations
        self._now = now
        encoding, decoding = config.encoding_secret or config.decoding_secret, config.decoding_secret
        self._encoding_key = config.key(encoding) if encoding else secrets.token_bytes(64)
        self._decoding_key = config.key(decoding) if decoding else self._encoding_key

    def issue(self, user_id: int, *, access_token_digest: bytes | None = None) -> Issued:
        """Give a token to a user who has just logged in.

        Raises:
            InvalidToken: The user is gone in the meantime.
        """
        config, now = self._config, int(self._now())
        credentials = self._metadata.credentials_of(user_id)
        if credentials is None:
            raise InvalidToken("the user does not exist any more")
        expires_at = now + max(1, int(config.access_token_expiry.seconds))
        claims: dict[str, Any] = {
            "jti": str(_uuid7(self._now())),
            "iss": config.issuer,
            "aud": config.audience,
            "sub": str(user_id),
            "iat": now,
            "nbf": now + int(config.not_before.seconds),
            "exp": expires_at,
            _PASSWORD: self._fingerprint(credentials.password_hash),
        }
        if access_token_digest is not None:
            claims[_ACCESS_TOKEN] = access_token_digest.hex()
        return Issued(jwt.encode(claims, self._encoding_key, config.algorithm), expires_at)

    def check(self, text: str) -> Bearer:
        """Say who shows this token.

        Raises:
            InvalidToken: It is not good, or not any more.
        """
        config = self._config
        try:
            claims = jwt.decode(
                text,
                self._decoding_key,
                algorithms=[config.algorithm],
                audience=config.valid_audiences,
                issuer=config.valid_issuers,
                # Expiry is compared below, with the clock that this object was given.
                options={"require": _REQUIRED, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidToken(str(error)) from error
        expires_at = _expiry(claims)
        if expires_at + config.clock_skew.seconds <= self._now():
            raise InvalidToken("it has expired")
        if self._revocations.holds(claims["jti"]):
            raise InvalidToken("it was revoked")
        bearer = Bearer(
            text=text,
            user_id=_user_id(claims),
            token_id=claims["jti"],
            expires_at=expires_at,
            access_token_digest=_digest(claims),
        )
        self._check_user(bearer, claims.get(_PASSWORD))
        return bearer

    def is_current(self, bearer: Bearer) -> bool:
        """Whether a token that was checked before has neither expired nor been revoked; its user is not looked at."""
        is_over = bearer.expires_at + self._config.clock_skew.seconds <= self._now()
        return not is_over and not self._revocations.holds(bearer.token_id)

    async def revoke(self, bearer: Bearer) -> None:
        """Take a token back; from the moment of the call nobody comes in with it."""
        expired_before = int(self._now() - self._config.clock_skew.seconds) - 1
        await self._revocations.add(bearer.token_id, bearer.expires_at, expired_before=expired_before)

    def _check_user(self, bearer: Bearer, fingerprint: object) -> None:
        credentials = self._metadata.credentials_of(bearer.user_id)
        if credentials is None or not credentials.is_active:
            raise InvalidToken("its user does not exist any more, or is not active")
        # A token that somebody else made, who has the secret, has no word about the password.
        if fingerprint is not None and not hmac.compare_digest(
            str(fingerprint).encode(), self._fingerprint(credentials.password_hash).encode()
        ):
            raise InvalidToken("the password was changed since")
        if bearer.access_token_digest is not None:
            token = self._metadata.access_token(bearer.access_token_digest)
            if token is None or token.user_id != bearer.user_id:
                raise InvalidToken("the access token was deleted since")
            if 0 < token.expires_at_micros <= self._now() * 1_000_000:
                raise InvalidToken("the access token has expired since")

    def _fingerprint(self, password_hash: str) -> str:
        return hmac.new(self._decoding_key, password_hash.encode(), hashlib.sha256).hexdigest()[:32]


def _expiry(claims: dict[str, Any]) -> int:
    try:
        return int(claims["exp"])
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidToken("exp is no number") from error


def _user_id(claims: dict[str, Any]) -> int:
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject.isascii() or not subject.isdigit() or int(subject) >= 2**32:
        raise InvalidToken("sub is no user's id")
    return int(subject)


def _digest(claims: dict[str, Any]) -> bytes | None:
    digest = claims.get(_ACCESS_TOKEN)
    if digest is None:
        return None
    try:
        return bytes.fromhex(digest)
    except (TypeError, ValueError) as error:
        raise InvalidToken("pat is no digest") from error


def _uuid7(seconds: float) -> uuid.UUID:
    """A random id that sorts by time (RFC 9562)."""
    number = (int(seconds * 1000) & (2**48 - 1)) << 80 | secrets.randbits(76)
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=number)
