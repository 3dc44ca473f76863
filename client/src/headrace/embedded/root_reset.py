"""Reset of the root user: a known password, and an active user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from headrace.embedded import data_directory
from headrace.embedded.config import load_config
from headrace.embedded.errors import EmbeddedError
from headrace.embedded.root_user import generated_password
from headrace.embedded.server import native_replica
from headrace_gateway.access.passwords import Passwords
from headrace_metadata.errors import MetadataError as ReplicaError
from headrace_metadata.replica import Replica
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, AccessToken, Snapshot
from headrace_proto.errors import Status, find
from headrace_proto.limits import PASSWORD_BYTES
from headrace_proto.metadata.v1 import ChangePassword, Command, DeleteAccessToken, Reply, UpdateUser
from headrace_proto.well_known import ROOT_USER_ID


class ResetError(EmbeddedError):
    """Root was not reset, or only partly. The message contains the reason."""


def new_password(file: Path | None) -> tuple[str, bool]:
    """Return the new password of root, and whether it was generated.

    Args:
        file: File with the password; None: generate one.

    Raises:
        ResetError: The file cannot be read, or its contents are not a valid password.
    """
    if file is None:
        return generated_password(), True
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ResetError(f"{file} cannot be read: {error}") from error
    if len(password.encode()) not in PASSWORD_BYTES:
        limits = f"{PASSWORD_BYTES.start} to {PASSWORD_BYTES.stop - 1}"
        raise ResetError(f"the password in {file} has {len(password.encode())} bytes; {limits} are allowed")
    return password, False


async def commands(catalog: Snapshot, password: str) -> list[Command]:
    """Return the commands that reset root: new password, no access tokens, active. All of them can be repeated.

    The password comes first, so that no earlier credential works when root is active again.

    Raises:
        ResetError: There is no root.
    """
    if not any(user.id == ROOT_USER_ID for user in catalog.users):
        raise ResetError("there is no root user yet: the first start creates one (root.username, root.password)")
    async with Passwords(1) as passwords:
        password_hash = await passwords.hash(password.encode())
    root = ROOT_USER_ID
    return [
        Command(actor_user_id=root, change_password=ChangePassword(user_id=root, password_hash=password_hash)),
        *(
            Command(actor_user_id=root, delete_access_token=DeleteAccessToken(name=token.name))
            for token in _tokens_of_root(catalog.access_tokens)
        ),
        Command(actor_user_id=root, update_user=UpdateUser(user_id=root, status=USER_STATUS_ACTIVE)),
    ]


def username(catalog: Snapshot) -> str:
    """Return root's name."""
    return next(user.username for user in catalog.users if user.id == ROOT_USER_ID)


def reset_in_directory(name: str, password: str) -> str:
    """Reset root in the data directory of a stopped embedded server; return root's name.

    Raises:
        EmbeddedError: The directory is not a server's, or the server runs; nothing was changed.
    """
    path = Path(name).expanduser().absolute()
    if not (path / data_directory.METADATA).is_dir():
        raise ResetError(
            f"{path} is not the data directory of a server: it has no subdirectory {data_directory.METADATA}"
        )
    return asyncio.run(_reset_in_directory(name, password))


async def _reset_in_directory(name: str, password: str) -> str:
    try:
        with data_directory.opened(name) as path:
            async with await Replica.open(native_replica(load_config(None, {}).config, path)) as replica:
                await replica.wait_recovered()
                catalog = replica.state.catalog()
                for command in await commands(catalog, password):
                    check(command, await replica.propose(command))
                return username(catalog)
    except (ReplicaError, OSError) as error:
        raise ResetError(str(error)) from error


def reset_through(propose: Callable[[Command], Reply], catalog: Snapshot, password: str) -> str:
    """Reset root by commands that the replicas of a cluster order and apply; return root's name.

    Args:
        propose: Applies a command.
        catalog: Current catalog.
        password: New password of root.

    Raises:
        ResetError: There is no root, or a command was refused.
    """
    for command in asyncio.run(commands(catalog, password)):
        check(command, propose(command))
    return username(catalog)


def check(command: Command, reply: Reply) -> None:
    """Check that a command was applied; a token that is already deleted is accepted.

    Raises:
        ResetError: The command was refused.
    """
    operation = command.WhichOneof("operation")
    is_gone = operation == "delete_access_token" and reply.status == Status.RESOURCE_NOT_FOUND
    if reply.status != Status.OK and not is_gone:
        info = find(reply.status)
        reason = info.name if info is not None else str(reply.status)
        raise ResetError(f"{operation} was refused: {reason}. Root is only partly reset; repeat the command")


def _tokens_of_root(tokens: Iterable[AccessToken]) -> list[AccessToken]:
    return [token for token in tokens if token.user_id == ROOT_USER_ID]
