"""Settings of login tokens."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final, Literal, Self

from pydantic import model_validator

from headrace_settings import Between, Duration, Secret, Section, SharedBy

_SECRET_BYTES_MIN: Final = {"HS256": 32, "HS384": 48, "HS512": 64}


class JwtConfig(Section):
    """`http.jwt`: login tokens, for HTTP and gRPC alike."""

    algorithm: Literal["HS256", "HS384", "HS512"] = "HS256"
    """Signature algorithm."""
    issuer: str = "headrace"
    """Issuer claim of new tokens."""
    audience: str = "headrace"
    """Audience claim of new tokens."""
    valid_issuers: tuple[str, ...] = ("headrace",)
    """Issuers whose tokens are accepted."""
    valid_audiences: tuple[str, ...] = ("headrace",)
    """Audiences whose tokens are accepted."""
    access_token_expiry: Annotated[Duration, Between(Duration.parse("1 s"), None)] = Duration.parse("1 h")
    """Lifetime of a login token."""
    clock_skew: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("5 s")
    """Time after the expiry for which a token is still accepted, to allow for clock differences."""
    max_revocations_per_second: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_USER] = 10
    """Maximum rate at which tokens of one user may be exchanged or revoked per second, with bursts of a hundred times
    as many: each is remembered until its expiry. Requests beyond it are refused with 429.
    """
    not_before: Annotated[Duration, Between(Duration(0), Duration.parse("1 day"))] = Duration(0)
    """Time after the issue before which a token is not valid, as a claim for other services; not enforced here."""
    encoding_secret: Secret | None = None
    """Secret that signs tokens. Without any secret a random one is used, and every token ends with the process;
    gateways of a cluster use a secret derived from the cluster's secret.
    """
    decoding_secret: Secret | None = None
    """Secret that verifies tokens. If only one of the two is set, it is used for both."""
    use_base64_secret: bool = False
    """Decode the secrets as base64."""

    @model_validator(mode="after")
    def _secrets_are_long_enough(self) -> Self:
        for name in ("encoding_secret", "decoding_secret"):
            secret: Secret | None = getattr(self, name)
            if secret and len(self.key(secret)) < _SECRET_BYTES_MIN[self.algorithm]:
                raise ValueError(
                    f"{name} has fewer than the {_SECRET_BYTES_MIN[self.algorithm]} bytes of {self.algorithm}"
                )
        return self

    def key(self, secret: Secret) -> bytes:
        """Return the bytes of a secret.

        Raises:
            ValueError: The secret is not valid base64.
        """
        if not self.use_base64_secret:
            return secret.reveal().encode()
        try:
            return base64.b64decode(secret.reveal(), validate=True)
        except binascii.Error:
            raise ValueError("with use_base64_secret the secrets are base64") from None
