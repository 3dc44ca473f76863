"""Secrets shared by the services of a cluster: one, and a second one during a rotation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace_proto.cluster_token import metrics_authorization
from headrace_settings import Secret

SECRET_BYTES_MIN: Final = 32
"""Minimum length: an attacker with signed data could guess shorter secrets."""


def check_secrets(secret: Secret | None, accepted: Secret | None) -> None:
    """Validate the cluster secrets in the settings of a service.

    Raises:
        ValueError: A secret is too short, or there is a second one without the first.
    """
    for name, given in (("secret", secret), ("accepted_secret", accepted)):
        if given is not None and len(given.reveal().encode()) < SECRET_BYTES_MIN:
            raise ValueError(
                f"the {name} has fewer than {SECRET_BYTES_MIN} bytes: create one with `openssl rand -hex 32`, and give "
                "it to every service of the cluster"
            )
    if accepted is not None and secret is None:
        raise ValueError("accepted_secret needs secret: it is only used while the secret is rotated")


def secrets_of(secret: Secret | None, accepted: Secret | None) -> tuple[str, ...]:
    """Return the secrets that are accepted from other services, the own one first."""
    return tuple(given.reveal() for given in (secret, accepted) if given is not None)


def metrics_authorizations(secrets: Sequence[str], cluster_name: str) -> tuple[str, ...]:
    """Return the values of the header ``Authorization`` that permit reading the metrics of a service."""
    return tuple(metrics_authorization(secret, cluster_name) for secret in secrets)
