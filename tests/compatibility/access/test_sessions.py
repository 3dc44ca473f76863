"""Login and logout, by password and by token, and every refusal (CTL-9, GW-10)."""

from __future__ import annotations

import base64
import time

import pytest

from tests.compatibility.conftest import Connect
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Reader
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection, Reply
from tests.server_process import PASSWORD, USERNAME, ServerProcess

WRONG_LOGINS = {
    "wrong password": (frames.login(USERNAME, "wrong"), Status.INVALID_CREDENTIALS),
    "unknown user": (frames.login("nobody", PASSWORD), Status.INVALID_CREDENTIALS),
    "name of 2 bytes": (frames.login("ab", PASSWORD), Status.INVALID_USERNAME),
    "name of 51 bytes": (frames.login("u" * 51, PASSWORD), Status.INVALID_USERNAME),
    "password of 2 bytes": (frames.login(USERNAME, "ab"), Status.INVALID_PASSWORD),
    "password of no bytes": (frames.login(USERNAME, ""), Status.INVALID_PASSWORD),
    "password of 101 bytes": (frames.login(USERNAME, "p" * 101), Status.INVALID_PASSWORD),
    "a number is a name, not an id (Q3)": (frames.login("000", PASSWORD), Status.INVALID_CREDENTIALS),
    "names have a case": (frames.login(USERNAME.upper(), PASSWORD), Status.INVALID_CREDENTIALS),
}


@pytest.mark.parametrize(("payload", "status"), WRONG_LOGINS.values(), ids=WRONG_LOGINS)
def test_a_login_that_is_refused(connect: Connect, payload: bytes, status: Status) -> None:
    """The documented status; the connection stays anonymous and usable."""
    connection = connect()
    assert connection.status(Code.LOGIN_USER, payload) == status
    assert connection.status(Code.GET_STREAMS) == Status.UNAUTHENTICATED
    connection.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))


def test_login_and_logout(connect: Connect) -> None:
    """The response contains the user's id; after a logout the connection is unauthenticated and usable."""
    connection = connect()
    for _ in range(2):
        assert connection.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD)) == frames.u32(0)
        connection.ok(Code.GET_STREAMS)
        assert connection.ok(Code.LOGOUT_USER) == b""
        for code in (Code.GET_STREAMS, Code.LOGOUT_USER, Code.SEND_MESSAGES):
            assert connection.status(code) == Status.UNAUTHENTICATED
        assert connection.is_alive()


def test_a_second_login_switches_the_user(root: RawConnection, connect: Connect) -> None:
    """A second login on the same connection switches the user; a refused one changes nothing."""
    root.ok(Code.CREATE_USER, frames.create_user("switched", "secret"))
    connection = connect()
    connection.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
    connection.ok(Code.GET_USERS)
    assert connection.ok(Code.LOGIN_USER, frames.login("switched", "secret")) != frames.u32(0)
    assert connection.status(Code.GET_USERS) == Status.UNAUTHORIZED
    assert connection.status(Code.LOGIN_USER, frames.login("switched", "wrong")) == Status.INVALID_CREDENTIALS
    assert connection.status(Code.GET_USERS) == Status.UNAUTHORIZED


def test_an_inactive_user(root: RawConnection, connect: Connect) -> None:
    """The status is 47, before the password is checked; open sessions end and do not return when the user is active
    again.
    """
    root.ok(Code.CREATE_USER, frames.create_user("dormant", "secret"))
    open_session = connect()
    open_session.ok(Code.LOGIN_USER, frames.login("dormant", "secret"))
    raw_token = open_session.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("of the dormant") + frames.u64(0))
    root.ok(Code.UPDATE_USER, frames.ident("dormant") + b"\x00\x01\x02")
    connection = connect()
    assert connection.status(Code.LOGIN_USER, frames.login("dormant", "secret")) == Status.USER_INACTIVE
    assert connection.status(Code.LOGIN_USER, frames.login("dormant", "wrong")) == Status.USER_INACTIVE
    assert connection.status(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, raw_token) == Status.USER_INACTIVE
    assert open_session.status(Code.GET_ME) == Status.UNAUTHENTICATED
    root.ok(Code.UPDATE_USER, frames.ident("dormant") + b"\x00\x01\x01")
    assert open_session.status(Code.GET_ME) == Status.UNAUTHENTICATED
    connection.ok(Code.LOGIN_USER, frames.login("dormant", "secret"))


def test_a_deleted_user(root: RawConnection, connect: Connect) -> None:
    """The sessions of a deleted user end, and no user inherits them (Q4): ids of users are never reused."""
    root.ok(Code.CREATE_USER, frames.create_user("short-lived", "secret", frames.permissions(["read_streams"])))
    connection = connect()
    user = connection.ok(Code.LOGIN_USER, frames.login("short-lived", "secret"))
    connection.ok(Code.GET_STREAMS)
    root.ok(Code.DELETE_USER, frames.ident("short-lived"))
    assert connection.status(Code.GET_STREAMS) == Status.UNAUTHENTICATED
    successor = root.ok(
        Code.CREATE_USER, frames.create_user("successor", "secret", frames.permissions(["read_streams"]))
    )
    assert successor[:4] != user
    assert connection.status(Code.GET_STREAMS) == Status.UNAUTHENTICATED


# ---- tokens


def tokens(connection: RawConnection) -> dict[str, int]:
    """Return name and expiry of the caller's tokens."""
    reader = Reader(connection.ok(Code.GET_PERSONAL_ACCESS_TOKENS))
    found = {}
    while not reader.is_at_end:
        name = reader.name()
        found[name] = reader.number("Q")
    return found


def test_a_token_stands_for_its_user(shared_server: ServerProcess, root: RawConnection, connect: Connect) -> None:
    """A token is 50 random bytes as Base64, shown once, and gives the same session as the password."""
    root.ok(Code.CREATE_USER, frames.create_user("token-user", "secret"))
    user = RawConnection.as_user(shared_server.address, "token-user", "secret")
    with user:
        answer = user.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("laptop") + frames.u64(0))
        raw_token = Reader(answer).name()
        assert len(answer) == 1 + 68
        assert len(base64.b64decode(raw_token, validate=True)) == 50
        assert tokens(user) == {"laptop": 0}
        assert "laptop" not in tokens(root)
        by_token = connect()
        identity = by_token.ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, answer)
        assert identity == user.ok(Code.LOGIN_USER, frames.login("token-user", "secret"))
        assert by_token.status(Code.GET_USERS) == Status.UNAUTHORIZED
        # An official client sends padding after the name.
        user.ok(Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name("laptop") + bytes(10))
        assert tokens(user) == {}
    assert connect().status(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, answer) == Status.RESOURCE_NOT_FOUND


def test_tokens_that_are_refused(root: RawConnection, connect: Connect) -> None:
    """Names of the wrong length, taken names, unknown tokens."""
    for bad in ("ab", "n" * 31):
        assert (
            root.status(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name(bad) + frames.u64(0))
            == Status.INVALID_TOKEN_NAME
        )
    root.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("taken") + frames.u64(0))
    assert (
        root.status(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("taken") + frames.u64(0))
        == Status.TOKEN_ALREADY_EXISTS
    )
    assert root.status(Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name("unknown")) == Status.RESOURCE_NOT_FOUND
    assert connect().status(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, frames.name("unknown")) == Status.RESOURCE_NOT_FOUND
    root.ok(Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name("taken"))


@pytest.mark.long
def test_a_token_expires(root: RawConnection, connect: Connect) -> None:
    """The listing shows the expiry as a time, after which the token is refused as expired."""
    # Long enough to log in before the expiry, also on a busy machine.
    lifetime_micros = 10_000_000
    before = time.time_ns() // 1000
    raw_token = root.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("brief") + frames.u64(lifetime_micros))
    after = time.time_ns() // 1000
    assert before + lifetime_micros <= tokens(root)["brief"] <= after + lifetime_micros
    connect().ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, raw_token)
    time.sleep(lifetime_micros / 1e6 + 0.05)
    assert connect().request(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, raw_token) == Reply(Status.TOKEN_EXPIRED)


def test_a_token_that_never_expires(root: RawConnection, connect: Connect) -> None:
    """Both 0 and the largest number mean no expiry; the listing shows 0."""
    for name, expiry in (("never-0", 0), ("never-max", frames.NEVER)):
        raw_token = root.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name(name) + frames.u64(expiry))
        connect().ok(Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, raw_token)
        assert tokens(root)[name] == 0


def test_at_most_a_hundred_tokens(shared_server: ServerProcess, root: RawConnection) -> None:
    """The limit is checked before the name."""
    root.ok(Code.CREATE_USER, frames.create_user("collector", "secret"))
    with RawConnection.as_user(shared_server.address, "collector", "secret") as user:
        for number in range(100):
            user.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name(f"token {number}") + frames.u64(0))
        assert (
            user.status(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("token 7") + frames.u64(0))
            == Status.TOKENS_LIMIT_REACHED
        )
        user.ok(Code.DELETE_PERSONAL_ACCESS_TOKEN, frames.name("token 7"))
        user.ok(Code.CREATE_PERSONAL_ACCESS_TOKEN, frames.name("token 7") + frames.u64(0))
