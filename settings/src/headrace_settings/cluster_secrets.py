"""What the services of a cluster share: one secret, and another one while it is changed."""

from __future__ import annotations

from typing import Final

from headrace_settings.secret import Secret

SECRET_BYTES_MIN: Final = 32
"""Shorter ones can be guessed by those who have seen something that was signed."""


def check_secrets(secret: Secret | None, accepted: Secret | None) -> None:
    """Check what the settings of a service say of the secrets of its cluster.

    Raises:
        ValueError: One can be guessed, or there is another one without the first.
    """
    for name, given in (("secret", secret), ("accepted_secret", accepted)):
        if given is not None and len(given.reveal().encode()) < SECRET_BYTES_MIN:
            raise ValueError(
                f"the {name} has less than {SECRET_BYTES_MIN} bytes: make one with `openssl rand -hex 32`, and give it "
                "to every service of the cluster"
            )
    if accepted is not None and secret is None:
        raise ValueError("accepted_secret needs secret: it is for the time in which that is changed")


def secrets_of(secret: Secret | None, accepted: Secret | None) -> tuple[str, ...]:
    """Return those by which others are known, the own one first."""
    return tuple(given.reveal() for given in (secret, accepted) if given is not None)
