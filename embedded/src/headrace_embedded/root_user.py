"""The root user: created once, on an empty state; a generated password is shown once."""

from __future__ import annotations

import asyncio
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass

from headrace_embedded.config import RootConfig
from headrace_embedded.errors import RootCredentialsError
from headrace_embedded.reads import DirectReads
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.access.root_user import RootUserError, create_root_user
from headrace_metadata.replica import Replica
from headrace_settings import Secret

DEFAULT_USERNAME = "iggy"
"""Default of existing clients and scripts."""
DEFAULT_PASSWORD = "iggy"  # noqa: S105 - the well-known pair, used only when it is asked for

_GENERATED_CHARACTERS = string.ascii_letters + string.digits
_GENERATED_LENGTH = 24


@dataclass(frozen=True, slots=True)
class RootCredentials:
    """Credentials of a new root user."""

    username: str
    password: Secret
    generated: bool
    """True if the password was generated and has to be shown."""


def choose_root_credentials(config: RootConfig, *, use_default: bool) -> RootCredentials:
    """Return the configured credentials, else the well-known pair if requested, else a generated password."""
    if config.username is not None and config.password is not None:
        return RootCredentials(config.username, config.password, generated=False)
    if use_default:
        return RootCredentials(DEFAULT_USERNAME, Secret(DEFAULT_PASSWORD), generated=False)
    return RootCredentials(DEFAULT_USERNAME, Secret(generated_password()), generated=True)


def generated_password() -> str:
    """Return a new random password of letters and digits."""
    return "".join(secrets.choice(_GENERATED_CHARACTERS) for _ in range(_GENERATED_LENGTH))


async def ensure_root_user(
    replica: Replica,
    passwords: Passwords,
    config: RootConfig,
    *,
    use_default: bool,
    on_created: Callable[[RootCredentials], None],
) -> RootCredentials | None:
    """Create the root user unless it exists; return the credentials if it was created.

    Args:
        replica: Takes the command.
        passwords: Hashes the password.
        config: Configured credentials.
        use_default: Use the well-known pair, unless others are configured.
        on_created: Called with the credentials as soon as the user exists, also if the caller is cancelled meanwhile.

    Raises:
        RootCredentialsError: The credentials cannot be used.
    """
    chosen = choose_root_credentials(config, use_default=use_default)
    creating = asyncio.ensure_future(_create(replica, passwords, chosen))
    try:
        await asyncio.wait({creating})
    finally:
        # Cancelling takes no command back: the user may be created a moment later, and only these credentials open it.
        await asyncio.wait({creating})
        if creating.exception() is None and creating.result():
            on_created(chosen)
    return chosen if creating.result() else None


async def _create(replica: Replica, passwords: Passwords, chosen: RootCredentials) -> bool:
    try:
        return await create_root_user(
            proposer=replica,
            credentials=DirectReads(replica.state),
            passwords=passwords,
            username=chosen.username,
            password=chosen.password.reveal(),
        )
    except RootUserError as error:
        raise RootCredentialsError(str(error)) from error
