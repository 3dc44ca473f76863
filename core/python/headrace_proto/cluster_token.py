"""Authentication between the services of a cluster by a shared secret.

The secret itself is never sent. A caller presents a token derived from the secret and from the cluster's name, so that
a token of one cluster is not valid in another. The token is the same for every call: across a network the connection
has to be encrypted.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

HEADER: Final = "authorization"
"""Metadata key of the token."""

PRIMARY_METADATA: Final = "headrace-primary"
"""Trailing metadata by which a replica of the metadata service names the primary: an index into the members."""

_SCHEME: Final = "Bearer "
_PURPOSE: Final = b"headrace cluster client v1\0"
_LOGIN_PURPOSE: Final = b"headrace cluster login v1\0"
_METRICS_PURPOSE: Final = b"headrace cluster metrics v1\0"


def authorization(secret: str, cluster_name: str) -> str:
    """Return the value of the metadata: scheme and token."""
    return _SCHEME + _derived(secret, _PURPOSE, cluster_name)


def metrics_token(secret: str, cluster_name: str) -> str:
    """Return the token that authorizes reading the metrics of the cluster's services, and nothing else."""
    return _derived(secret, _METRICS_PURPOSE, cluster_name)


def metrics_authorization(secret: str, cluster_name: str) -> str:
    """Return the header ``authorization`` of a metrics request: scheme and :func:`metrics_token`."""
    return _SCHEME + metrics_token(secret, cluster_name)


def login_key(secret: str, cluster_name: str) -> bytes:
    """Return the key with which the gateways of a cluster sign login tokens, so that each accepts those of the others.

    A new secret invalidates all tokens, and users log in again, unless the old secret is accepted for a while.
    """
    return hmac.digest(secret.encode(), _LOGIN_PURPOSE + cluster_name.encode(), "sha512")


def is_one_of(presented: str | bytes, known: Sequence[str]) -> bool:
    """Return whether a header is one of the known ones, in constant time."""
    given = presented.encode(errors="replace") if isinstance(presented, str) else presented
    matches = [hmac.compare_digest(given, one.encode()) for one in known]
    return any(matches)


def _derived(secret: str, purpose: bytes, cluster_name: str) -> str:
    return hmac.digest(secret.encode(), purpose + cluster_name.encode(), "sha256").hex()
