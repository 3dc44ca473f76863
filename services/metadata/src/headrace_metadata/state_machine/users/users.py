"""Commands on users and their passwords.

Statuses in the order in which they are checked, which clients of the binary protocol rely on:
create 43, 3, 46, 55; update 43, 3, 20, 46; delete 20, 48; change of password 20.
"""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext, Refused
from headrace_metadata.state_machine.groups import groups
from headrace_metadata.state_machine.state import State
from headrace_metadata.state_machine.users import permissions
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, USER_STATUS_INACTIVE, User
from headrace_proto.errors import Status
from headrace_proto.limits import USER_ID_MAX, USERNAME_BYTES
from headrace_proto.metadata.v1 import ChangePassword, CreateUser, DeleteUser, Reply, UpdateUser
from headrace_proto.well_known import ROOT_USER_ID


def create(state: State, context: CommandContext, command: CreateUser) -> Reply:
    """Create a user. The first one ever gets id 0 and is root."""
    _check_username(command.username)
    _check_status(command.status)
    user_id = state.accounts.next_user_id
    if state.accounts.user_id_named(command.username) is not None or (command.is_root and user_id != ROOT_USER_ID):
        raise Refused(Status.USER_ALREADY_EXISTS)
    if user_id > USER_ID_MAX:
        raise Refused(Status.USERS_LIMIT_REACHED)

    user = User(
        id=user_id,
        username=command.username,
        created_at_micros=context.timestamp_micros,
        status=command.status,
        permissions=permissions.canonical(command.permissions) if command.HasField("permissions") else None,
        password_version=1,
    )
    state.accounts.next_user_id = user_id + 1
    state.accounts.put_user(user)
    state.accounts.put_password_hash(user_id, command.password_hash)
    return Reply(user=user)


def update(state: State, command: UpdateUser) -> Reply:
    """Rename a user, change its status, or both. Root is no exception."""
    if command.HasField("username"):
        _check_username(command.username)
    if command.HasField("status"):
        _check_status(command.status)
    user = state.accounts.user(command.user_id)
    if command.HasField("username") and state.accounts.user_id_named(command.username) not in {None, user.id}:
        raise Refused(Status.USER_ALREADY_EXISTS)

    updated = User()
    updated.CopyFrom(user)
    if command.HasField("username"):
        updated.username = command.username
    if command.HasField("status"):
        updated.status = command.status
    state.accounts.put_user(updated)
    return Reply()


def delete(state: State, context: CommandContext, command: DeleteUser) -> Reply:
    """Delete a user with its access tokens; its connections leave their groups."""
    user = state.accounts.user(command.user_id)
    if user.id == ROOT_USER_ID:
        raise Refused(Status.CANNOT_DELETE_USER)

    state.accounts.remove_user(user)
    groups.forget_user(state, context, user.id)
    return Reply()


def change_password(state: State, command: ChangePassword) -> Reply:
    """Replace the hash; the proposer has verified the current password.

    The catalog contains the new version, not the hash.
    """
    user = state.accounts.user(command.user_id)
    updated = User()
    updated.CopyFrom(user)
    updated.password_version += 1
    state.accounts.put_user(updated)
    state.accounts.put_password_hash(user.id, command.password_hash)
    return Reply()


def _check_username(username: str) -> None:
    if len(username.encode()) not in USERNAME_BYTES:
        raise Refused(Status.INVALID_USERNAME)


def _check_status(user_status: int) -> None:
    if user_status not in {USER_STATUS_ACTIVE, USER_STATUS_INACTIVE}:
        raise Refused(Status.INVALID_COMMAND)
