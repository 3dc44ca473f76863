"""The first user."""

from __future__ import annotations

from headrace_gateway.access.passwords import Passwords
from headrace_gateway.ports import CredentialsReader, Proposer
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, GlobalPermissions, Permissions
from headrace_proto.errors import Status
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES
from headrace_proto.metadata.v1 import Command, CreateUser
from headrace_proto.rights import GLOBAL_RIGHTS
from headrace_proto.well_known import ROOT_USER_ID


class RootUserError(Exception):
    """The root user cannot be created from these settings."""


async def create_root_user(
    *, proposer: Proposer, credentials: CredentialsReader, passwords: Passwords, username: str, password: str
) -> bool:
    """Create the root user, with all global permissions, unless it exists. Called before the first listener opens.

    Returns:
        True if it was created; otherwise username and password were not checked.

    Raises:
        RootUserError: The username or the password is too short or too long.
    """
    if await credentials.credentials_of(ROOT_USER_ID) is not None:
        return False
    if len(username.encode()) not in USERNAME_BYTES:
        raise RootUserError(
            f"the name of the root user has {len(username.encode())} bytes; "
            f"{USERNAME_BYTES.start} to {USERNAME_BYTES.stop - 1} are allowed"
        )
    if len(password.encode()) not in PASSWORD_BYTES:
        raise RootUserError(
            f"the password of the root user has {len(password.encode())} bytes; "
            f"{PASSWORD_BYTES.start} to {PASSWORD_BYTES.stop - 1} are allowed"
        )
    create_user = CreateUser(
        username=username,
        password_hash=await passwords.hash(password.encode()),
        status=USER_STATUS_ACTIVE,
        permissions=_all_permissions(),
        is_root=True,
    )
    reply = await proposer.propose(Command(actor_user_id=ROOT_USER_ID, create_user=create_user))
    if reply.status == Status.USER_ALREADY_EXISTS:
        # Another gateway created it first.
        return False
    if reply.status != Status.OK or reply.user.id != ROOT_USER_ID:
        raise RootUserError(f"the root user was not created: status {reply.status}")
    return True


def _all_permissions() -> Permissions:
    permissions = Permissions()
    # The field's name is a keyword of Python, so the attribute cannot be written.
    everything: GlobalPermissions = getattr(permissions, "global")
    for right in GLOBAL_RIGHTS:
        setattr(everything, right, True)
    return permissions
