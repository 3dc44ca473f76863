"""Reset of the root user: a known password, and an active user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace_embedded import data_directory
from headrace_embedded.config import load_config
from headrace_embedded.errors import EmbeddedError
from headrace_embedded.root_user import generated_password
from headrace_embedded.server import native_replica
from headrace_gateway.access.passwords import Passwords
from headrace_metadata.errors import MetadataError as ReplicaError
from headrace_metadata.replica import Replica
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, USER_STATUS_INACTIVE, AccessToken, Snapshot, UserStatus
from headrace_proto.errors import Status, find
from headrace_proto.limits import PASSWORD_BYTES
from headrace_proto.metadata.v1 import ChangePassword, Command, DeleteAccessToken, Reply, UpdateUser
from headrace_proto.well_known import ROOT_USER_ID

SETTLING_SECONDS: Final = 1.0
"""Gateways know after some milliseconds that root is inactive; requests that they accepted before are applied then."""

UNFINISHED: Final = "root may be only partly reset, and inactive, until this command is repeated"
"""Explanation for a reset that did not end."""


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


def commands(read: Callable[[], Snapshot], password_hash: str, *, settling_seconds: float = 0.0) -> Iterator[Command]:
    """Yield the commands that reset root, each to be applied before the next one. All of them can be repeated.

    Root is inactive first, so that no session and no token of root can create another token while these are deleted.
    It is active last, when no earlier credential is left.

    Args:
        read: Returns the catalog with every change so far.
        password_hash: Hash of the new password.
        settling_seconds: Time for requests that were accepted while root was still active.
    """
    yield _with_status(USER_STATUS_INACTIVE)
    yield _of_root(change_password=ChangePassword(user_id=ROOT_USER_ID, password_hash=password_hash))
    time.sleep(settling_seconds)
    while tokens := _tokens_of_root(read().access_tokens):
        for token in tokens:
            yield _of_root(delete_access_token=DeleteAccessToken(name=token.name))
    yield _with_status(USER_STATUS_ACTIVE)


def username(catalog: Snapshot) -> str:
    """Return root's name.

    Raises:
        ResetError: There is no root.
    """
    for user in catalog.users:
        if user.id == ROOT_USER_ID:
            return user.username
    raise ResetError("there is no root user yet: the first start creates one (root.username, root.password)")


def reset_in_directory(name: str, password: str) -> str:
    """Reset root in the data directory of a stopped embedded server; return root's name.

    Raises:
        EmbeddedError: The directory is not a server's, or the server runs, and nothing was changed; or root is only
            partly reset.
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
                root, password_hash = username(replica.state.catalog()), await _hash(password)
                with _unfinished_on_error():
                    for command in commands(replica.state.catalog, password_hash):
                        check(command, await replica.propose(command))
                return root
    except (ReplicaError, OSError) as error:
        raise ResetError(str(error)) from error


def reset_through(
    propose: Callable[[Command], Reply],
    read: Callable[[], Snapshot],
    password: str,
    *,
    settling_seconds: float = SETTLING_SECONDS,
) -> str:
    """Reset root by commands that the replicas of a cluster order and apply; return root's name.

    Args:
        propose: Applies a command.
        read: Returns the catalog with every change so far.
        password: New password of root.
        settling_seconds: Time for requests that gateways accepted while root was still active.

    Raises:
        ResetError: There is no root, or root is only partly reset.
    """
    root, password_hash = username(read()), asyncio.run(_hash(password))
    with _unfinished_on_error():
        for command in commands(read, password_hash, settling_seconds=settling_seconds):
            check(command, propose(command))
    return root


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
        raise ResetError(f"{operation} was refused: {reason}")


def _tokens_of_root(tokens: Iterable[AccessToken]) -> list[AccessToken]:
    return [token for token in tokens if token.user_id == ROOT_USER_ID]


def _with_status(status: UserStatus.ValueType) -> Command:
    return _of_root(update_user=UpdateUser(user_id=ROOT_USER_ID, status=status))


def _of_root(**operation: Any) -> Command:
    return Command(actor_user_id=ROOT_USER_ID, **operation)


async def _hash(password: str) -> str:
    async with Passwords(1) as passwords:
        return await passwords.hash(password.encode())


@contextmanager
def _unfinished_on_error() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ResetError(f"{error}\n{UNFINISHED}") from error
