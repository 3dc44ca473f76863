"""How callers of a cluster's services show that they know its shared secret.

The secret itself never travels. A caller presents a token that is derived from it and from the cluster's name, so
that a token of one cluster opens no other. The token is the same for every call: across a network the connection has
to be encrypted.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

HEADER: Final = "authorization"
"""The name of the metadata that carries it."""

PRIMARY_METADATA: Final = "headrace-primary"
"""The trailing metadata by which a replica of the metadata service names the primary: an index into the members."""

_SCHEME: Final = "Bearer "
_PURPOSE: Final = b"headrace cluster client v1\0"
_LOGIN_PURPOSE: Final = b"headrace cluster login v1\0"
_METRICS_PURPOSE: Final = b"headrace cluster metrics v1\0"


def authorization(secret: str, cluster_name: str) -> str:
    """Return the value of the metadata: a scheme and the token."""
    return _SCHEME + _derived(secret, _PURPOSE, cluster_name)


def metrics_token(secret: str, cluster_name: str) -> str:
    """Return what shows that somebody may read the figures of the cluster's services, and opens nothing else."""
    return _derived(secret, _METRICS_PURPOSE, cluster_name)


def metrics_authorization(secret: str, cluster_name: str) -> str:
    """Return the header ``authorization`` of a request for figures: a scheme and :func:`metrics_token`."""
    return _SCHEME + metrics_token(secret, cluster_name)


def login_key(secret: str, cluster_name: str) -> bytes:
    """Return what the gateways of a cluster sign the tokens of logins with, so that each takes those of the others.

    With another secret the tokens that were given before are over, and everybody logs in again, unless the one before
    is accepted for a while.
    """
    return hmac.digest(secret.encode(), _LOGIN_PURPOSE + cluster_name.encode(), "sha512")


def is_one_of(presented: str | bytes, known: Sequence[str]) -> bool:
    """Return whether a header is one of those that are known, in a time that does not show how much of it is right."""
    given = presented.encode(errors="replace") if isinstance(presented, str) else presented
    matches = [hmac.compare_digest(given, one.encode()) for one in known]
    return any(matches)


def _derived(secret: str, purpose: bytes, cluster_name: str) -> str:
    return hmac.digest(secret.encode(), purpose + cluster_name.encode(), "sha256").hex()
