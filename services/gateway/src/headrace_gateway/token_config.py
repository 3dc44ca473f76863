"""Settings of the tokens that a login gives."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final, Literal, Self

from pydantic import model_validator

from headrace_settings import Between, Duration, Secret, Section

_SECRET_BYTES_MIN: Final = {"HS256": 32, "HS384": 48, "HS512": 64}


class JwtConfig(Section):
    """`http.jwt`: the tokens that a login gives, over HTTP and gRPC alike."""

    algorithm: Literal["HS256", "HS384", "HS512"] = "HS256"
    """How they are signed."""
    issuer: str = "headrace"
    """Written into tokens."""
    audience: str = "headrace"
    """Written into tokens."""
    valid_issuers: tuple[str, ...] = ("headrace",)
    """Issuers whose tokens are accepted."""
    valid_audiences: tuple[str, ...] = ("headrace",)
    """Audiences whose tokens are accepted."""
    access_token_expiry: Annotated[Duration, Between(Duration.parse("1 s"), None)] = Duration.parse("1 h")
    """For how long a token is good."""
    clock_skew: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("5 s")
    """For how much longer it is accepted, as clocks differ."""
    max_revocations_per_second: Annotated[int, Between(1, 1_000_000)] = 10
    """How many tokens of one user may be exchanged or given back each second in the long run, and a hundred times as
    many at once: each is remembered until it would have expired. More are refused with 429."""
    not_before: Annotated[Duration, Between(Duration(0), Duration.parse("1 day"))] = Duration(0)
    """Written into tokens, for other services that read them; not enforced here."""
    encoding_secret: Secret | None = None
    """Signs tokens. With neither secret a random one is used, and every token ends with the process; gateways of a
    cluster use one that they derive from its secret."""
    decoding_secret: Secret | None = None
    """Verifies tokens. One of the two alone is used for both."""
    use_base64_secret: bool = False
    """Whether the secrets are given in base64."""

    @model_validator(mode="after")
    def _secrets_are_long_enough(self) -> Self:
        for name in ("encoding_secret", "decoding_secret"):
            secret: Secret | None = getattr(self, name)
            if secret and len(self.key(secret)) < _SECRET_BYTES_MIN[self.algorithm]:
                raise ValueError(
                    f"{name} has less than the {_SECRET_BYTES_MIN[self.algorithm]} bytes of {self.algorithm}"
                )
        return self

    def key(self, secret: Secret) -> bytes:
        """The bytes of a secret.

        Raises:
            ValueError: It should be base64 and is not.
        """
        if not self.use_base64_secret:
            return secret.reveal().encode()
        try:
            return base64.b64decode(secret.reveal(), validate=True)
        except binascii.Error:
            raise ValueError("with use_base64_secret the secrets are base64") from None
