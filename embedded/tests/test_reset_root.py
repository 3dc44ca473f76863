"""`headrace metadata reset-root`: recovery of a lost root password."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from test_metadata_commands import Replica
from tests import command_line
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer, start_server
from tests.server_process import PASSWORD, USERNAME

from headrace_core import decode_raw_access_token, encode_create_personal_access_token
from headrace_embedded import root_reset
from headrace_metadata.state_machine import StateMachine
from headrace_proto.catalog.v1 import USER_STATUS_ACTIVE, USER_STATUS_INACTIVE, Snapshot, User
from headrace_proto.metadata.v1 import Command, CreateAccessToken, CreateUser, Reply, StateSnapshot, UpdateUser

__all__ = ["start_server"]


def reset(*arguments: str) -> tuple[int, str]:
    environment = {"PATH": os.environ["PATH"]}
    result = command_line.run("metadata", "reset-root", *arguments, environment=environment)
    return result.returncode, (result.stdout + result.stderr).decode()


def test_in_the_directory_of_a_stopped_server(start_server: StartServer) -> None:
    """A new password and no access tokens; everything else is unchanged. A running server is refused."""
    server = start_server()
    with RawConnection.as_root(server.address) as root:
        root.create_topic("kept", "t", 1)
        token = decode_raw_access_token(root.ok(*encode_create_personal_access_token(name="stolen")))
        root.ok(Code.CREATE_USER, frames.create_user("ann", "secret"))
    status, printed = reset("--data", str(server.data))
    assert status == 1
    assert "stop it" in printed
    server.stop()

    status, printed = reset("--data", str(server.data))
    assert status == 0, printed
    assert f"root is '{USERNAME}'" in printed
    password = printed.partition("password: ")[2].strip()
    assert len(password) == 24
    assert password.isalnum()

    server.start()
    with RawConnection(server.address) as connection:
        refused = connection.status(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
        assert refused == Status.INVALID_CREDENTIALS
        assert connection.status(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name(token)) == Status.RESOURCE_NOT_FOUND
        connection.ok(Code.LOGIN_USER, frames.login(USERNAME, password))
        assert connection.ok(Code.GET_STREAM, frames.ident("kept"))
        connection.ok(Code.LOGIN_USER, frames.login("ann", "secret"))


def test_what_is_no_data_directory_stays_as_it_is(tmp_path: Path) -> None:
    status, printed = reset("--data", str(tmp_path / "missing"))
    assert status == 1
    assert "is not the data directory of a server" in printed
    assert list(tmp_path.iterdir()) == []
    short = tmp_path / "short"
    short.write_text("x\n")
    status, printed = reset("--data", str(tmp_path), "--password-file", str(short))
    assert status == 1
    assert "has 1 bytes; 3 to 100 are allowed" in printed


def test_at_the_replicas_of_a_cluster(tmp_path: Path) -> None:
    """The commands are ordered like any other; an inactive root becomes active."""
    replica = Replica(tmp_path)
    try:
        old = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("old")
        created = CreateUser(username="toor", password_hash=old, status=USER_STATUS_ACTIVE, is_root=True)
        replica.propose(
            Command(create_user=created),
            Command(create_access_token=CreateAccessToken(name="stolen", digest=b"d" * 32)),
            Command(update_user=UpdateUser(user_id=0, status=USER_STATUS_INACTIVE)),
        )
        file = tmp_path / "password"
        file.write_text("a new secret\n")
        printed = replica("reset-root", "--password-file", str(file))
        assert "root is 'toor'" in printed
        assert "a new secret" not in printed
        replica("snapshot", str(tmp_path / "state"))
        state = StateSnapshot.FromString((tmp_path / "state").read_bytes())
        (user,), (password,) = state.catalog.users, state.passwords
        assert (user.status, user.password_version, len(state.tokens)) == (USER_STATUS_ACTIVE, 2, 0)
        assert PasswordHasher().verify(password.password_hash, "a new secret")
    finally:
        replica.process.kill()
        replica.process.wait()


class Log:
    """A state machine with root and some of its tokens."""

    def __init__(self, *tokens: str) -> None:
        self.machine = StateMachine()
        self.operations: list[str | None] = []
        root = CreateUser(username="toor", password_hash="old", status=USER_STATUS_ACTIVE, is_root=True)
        self.apply(Command(create_user=root))
        for name in tokens:
            self.create_token(name)

    def apply(self, command: Command) -> Reply:
        self.operations.append(command.WhichOneof("operation"))
        op = self.machine.op + 1
        return self.machine.apply(op, op, command).reply

    def create_token(self, name: str) -> None:
        self.apply(Command(create_access_token=CreateAccessToken(name=name, digest=name.encode() * 4)))

    def reset(self, propose: Callable[[Command], Reply]) -> str:
        return root_reset.reset_through(propose, self.catalog, "a new secret", settling_seconds=0.0)

    def catalog(self) -> Snapshot:
        return self.machine.catalog()

    @property
    def root(self) -> User:
        (user,) = self.catalog().users
        return user

    @property
    def tokens(self) -> list[str]:
        return [token.name for token in self.catalog().access_tokens]


@pytest.mark.parametrize("calls", range(1, 5))
def test_tokens_created_meanwhile_are_deleted(calls: int) -> None:
    """The holder of one token may create others with it until it is deleted, and a request may be on its way longer."""
    log = Log("stolen", "own")

    def propose(command: Command) -> Reply:
        nonlocal calls
        reply = log.apply(command)
        calls -= 1
        if calls == 0:
            log.create_token("another")
        return reply

    assert log.reset(propose) == "toor"
    assert calls < 0
    assert (log.tokens, log.root.status, log.root.password_version) == ([], USER_STATUS_ACTIVE, 2)


def test_root_is_inactive_while_it_is_reset() -> None:
    """No session and no token of root can be used between the first command and the last one."""
    log = Log("stolen")
    statuses = []

    def propose(command: Command) -> Reply:
        reply = log.apply(command)
        statuses.append(log.root.status)
        return reply

    log.reset(propose)
    assert statuses == [USER_STATUS_INACTIVE] * (len(statuses) - 1) + [USER_STATUS_ACTIVE]


@pytest.mark.parametrize("applied", range(4))
def test_a_reset_that_was_interrupted_is_repeated(applied: int) -> None:
    log = Log("stolen")
    calls = 0

    def propose(command: Command) -> Reply:
        nonlocal calls
        calls += 1
        if calls > applied:
            raise OSError("no replica answered")
        return log.apply(command)

    with pytest.raises(root_reset.ResetError, match=r"no replica answered\nroot may be .* until this .* is repeated"):
        log.reset(propose)
    assert (log.root.status == USER_STATUS_ACTIVE) == (applied == 0)
    log.reset(log.apply)
    assert (log.tokens, log.root.status) == ([], USER_STATUS_ACTIVE)


def test_there_is_nothing_to_reset_without_root() -> None:
    log = Log()
    with pytest.raises(root_reset.ResetError, match="there is no root user yet"):
        root_reset.reset_through(log.apply, Snapshot, "a new secret")
    assert log.operations == ["create_user"]
