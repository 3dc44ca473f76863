"""Users: create, list, change, delete; the refusals of each (CTL-9)."""

from __future__ import annotations

import pytest

from tests.compatibility.conftest import Connect
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Reader
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.rights import GLOBAL_RIGHTS


def details(answer: bytes) -> tuple[int, int, int, str, bytes | None]:
    """Decode id, creation, status, name and permissions of `UserDetails`."""
    reader = Reader(answer)
    header = (reader.number("I"), reader.number("Q"), reader.number("B"), reader.name())
    if reader.number("B") == 1:
        record = reader.bytes(reader.number("I"))
    else:
        # Missing permissions are encoded as four zero bytes in all.
        assert reader.bytes(3) == bytes(3)
        record = None
    assert reader.is_at_end
    return *header, record


def test_root(root: RawConnection) -> None:
    """Root has id 0, is active and has every global right."""
    identity, created_at, status, name, record = details(root.ok(Code.GET_USER, frames.ident(0)))
    assert (identity, status, name) == (0, 1, "iggy")
    assert created_at > 1_700_000_000_000_000
    assert record == frames.permissions(GLOBAL_RIGHTS)
    assert root.ok(Code.GET_USER, frames.ident("iggy")) == root.ok(Code.GET_USER, frames.ident(0))


RECORDS = {
    "none": None,
    "nothing": frames.permissions(),
    "global": frames.permissions(["read_servers", "send_messages"]),
    "streams": frames.permissions(streams={3: ["read_stream", "poll_messages"], 9: []}),
    "topics": frames.permissions(
        ["manage_users"],
        streams={3: ["manage_stream"]},
        topics={(3, 5): ["send_messages"], (3, 8): [], (7, 0): ["read_topic"]},
    ),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("status", [1, 2])
def test_permissions_come_back_as_they_went(
    root: RawConnection, stream: str, record: bytes | None, status: int
) -> None:
    """Permissions are returned unchanged by the creation and by later queries; ids that do not exist are accepted."""
    name = stream[-50:]
    answer = root.ok(Code.CREATE_USER, frames.create_user(name, "secret", record, status=status))
    identity, _, *rest = details(answer)
    assert rest == [status, name, record]
    assert root.ok(Code.GET_USER, frames.ident(identity)) == answer
    assert root.ok(Code.GET_USER, frames.ident(name)) == answer
    root.ok(Code.UPDATE_PERMISSIONS, frames.ident(name) + frames.opt_permissions(RECORDS["topics"]))
    assert details(root.ok(Code.GET_USER, frames.ident(name)))[-1] == RECORDS["topics"]
    root.ok(Code.UPDATE_PERMISSIONS, frames.ident(name) + b"\x00")
    assert details(root.ok(Code.GET_USER, frames.ident(name)))[-1] is None


def test_listing(root: RawConnection) -> None:
    """Every user once, root first."""
    root.ok(Code.CREATE_USER, frames.create_user("listed", "secret", status=2))
    reader = Reader(root.ok(Code.GET_USERS))
    users = []
    while not reader.is_at_end:
        users.append((reader.number("I"), reader.number("Q"), reader.number("B"), reader.name()))
    assert (users[0][0], users[0][3]) == (0, "iggy")
    assert [(status, name) for _, _, status, name in users if name == "listed"] == [(2, "listed")]
    ids = [user[0] for user in users]
    assert ids == sorted(set(ids))


REFUSED = {
    "name of 2 bytes": (Code.CREATE_USER, frames.create_user("ab", "secret"), Status.INVALID_USERNAME),
    "name of 51 bytes": (Code.CREATE_USER, frames.create_user("u" * 51, "secret"), Status.INVALID_USERNAME),
    "password of 2 bytes": (Code.CREATE_USER, frames.create_user("some", "ab"), Status.INVALID_PASSWORD),
    "password of no bytes": (Code.CREATE_USER, frames.create_user("some", ""), Status.INVALID_PASSWORD),
    "password of 101 bytes": (Code.CREATE_USER, frames.create_user("some", "p" * 101), Status.INVALID_PASSWORD),
    "taken name": (Code.CREATE_USER, frames.create_user("iggy", "secret"), Status.USER_ALREADY_EXISTS),
    "delete root by id": (Code.DELETE_USER, frames.ident(0), Status.CANNOT_DELETE_USER),
    "delete root by name": (Code.DELETE_USER, frames.ident("iggy"), Status.CANNOT_DELETE_USER),
    "delete no user": (Code.DELETE_USER, frames.ident("nobody"), Status.RESOURCE_NOT_FOUND),
    "update no user": (Code.UPDATE_USER, frames.ident(4_000_000) + b"\x00\x00", Status.RESOURCE_NOT_FOUND),
    "rename to 2 bytes": (Code.UPDATE_USER, frames.ident(0) + b"\x01\x02ab\x00", Status.INVALID_USERNAME),
    "permissions of root": (Code.UPDATE_PERMISSIONS, frames.ident(0) + b"\x00", Status.CANNOT_CHANGE_PERMISSIONS),
    "permissions of no user": (Code.UPDATE_PERMISSIONS, frames.ident("nobody") + b"\x00", Status.RESOURCE_NOT_FOUND),
    "password of no user": (
        Code.CHANGE_PASSWORD,
        frames.ident("nobody") + frames.name("secret") + frames.name("secrets"),
        Status.RESOURCE_NOT_FOUND,
    ),
    "wrong current password": (
        Code.CHANGE_PASSWORD,
        frames.ident(0) + frames.name("wrong") + frames.name("secrets"),
        Status.INVALID_CREDENTIALS,
    ),
    "new password of 2 bytes": (
        Code.CHANGE_PASSWORD,
        frames.ident(0) + frames.name("iggy") + frames.name("ab"),
        Status.INVALID_PASSWORD,
    ),
}


@pytest.mark.parametrize(("code", "payload", "status"), REFUSED.values(), ids=REFUSED)
def test_refused(root: RawConnection, code: Code, payload: bytes, status: Status) -> None:
    """The documented status; nothing has changed."""
    before = root.ok(Code.GET_USERS)
    assert root.status(code, payload) == status
    assert root.ok(Code.GET_USERS) == before
    assert root.is_alive()


def test_names_and_passwords_of_every_length(root: RawConnection, connect: Connect) -> None:
    """Names have 3 to 50 bytes, passwords 3 to 100 bytes, of any UTF-8."""
    for name, password in (("abc", "xyz"), ("ü" * 25, "ß" * 50), ("n" * 50, "p" * 100)):
        root.ok(Code.CREATE_USER, frames.create_user(name, password))
        connect().ok(Code.LOGIN_USER, frames.login(name, password))


def test_changing_a_password(root: RawConnection, connect: Connect) -> None:
    """Users change their password with the current one; the old password is void at once."""
    root.ok(Code.CREATE_USER, frames.create_user("changer", "before"))
    user = connect()
    user.ok(Code.LOGIN_USER, frames.login("changer", "before"))
    change = frames.ident("changer") + frames.name("before") + frames.name("after!")
    user.ok(Code.CHANGE_PASSWORD, change)
    assert user.status(Code.CHANGE_PASSWORD, change) == Status.INVALID_CREDENTIALS
    assert connect().status(Code.LOGIN_USER, frames.login("changer", "before")) == Status.INVALID_CREDENTIALS
    connect().ok(Code.LOGIN_USER, frames.login("changer", "after!"))
    other = frames.ident("iggy") + frames.name("iggy") + frames.name("stolen")
    assert user.status(Code.CHANGE_PASSWORD, other) == Status.UNAUTHORIZED
    # An administrator needs the current one as well (Q22).
    root.ok(Code.CHANGE_PASSWORD, frames.ident("changer") + frames.name("after!") + frames.name("by root"))
    connect().ok(Code.LOGIN_USER, frames.login("changer", "by root"))


def test_renaming(root: RawConnection, connect: Connect) -> None:
    """The id stays; renaming to the current name succeeds, to a taken name fails."""
    identity = root.ok(Code.CREATE_USER, frames.create_user("caterpillar", "secret"))[:4]
    rename = frames.ident("caterpillar") + b"\x01" + frames.name("butterfly") + b"\x00"
    root.ok(Code.UPDATE_USER, rename)
    assert root.status(Code.UPDATE_USER, rename) == Status.RESOURCE_NOT_FOUND
    root.ok(Code.UPDATE_USER, frames.ident("butterfly") + b"\x01" + frames.name("butterfly") + b"\x00")
    taken = frames.ident("butterfly") + b"\x01" + frames.name("iggy") + b"\x00"
    assert root.status(Code.UPDATE_USER, taken) == Status.USER_ALREADY_EXISTS
    assert connect().ok(Code.LOGIN_USER, frames.login("butterfly", "secret")) == identity


def test_an_administrator_does_not_change_users_with_more_rights(root: RawConnection, connect: Connect) -> None:
    """The right to manage users is not a way to lock out those with other rights."""
    manager = frames.permissions(["manage_users"])
    for name, rights in (("clerk", manager), ("boss", frames.permissions(["manage_users", "manage_streams"]))):
        root.ok(Code.CREATE_USER, frames.create_user(name, "secret", rights))
    root.ok(Code.CREATE_USER, frames.create_user("helper", "secret", frames.permissions(["read_users"])))
    clerk = connect()
    clerk.ok(Code.LOGIN_USER, frames.login("clerk", "secret"))
    inactive, active = b"\x00\x01\x02", b"\x00\x01\x01"
    less = b"\x01" + frames.u32(len(manager)) + manager
    for code, payload in (
        (Code.UPDATE_USER, frames.ident("boss") + inactive),
        (Code.UPDATE_USER, frames.ident("boss") + b"\x01" + frames.name("bossy") + b"\x00"),
        (Code.UPDATE_PERMISSIONS, frames.ident("boss") + b"\x00"),
        (Code.UPDATE_PERMISSIONS, frames.ident("boss") + less),
        (Code.DELETE_USER, frames.ident("boss")),
    ):
        assert clerk.status(code, payload) == Status.UNAUTHORIZED, (code, payload)
    clerk.ok(Code.UPDATE_USER, frames.ident("boss") + active)
    root.ok(Code.UPDATE_USER, frames.ident("boss") + inactive)
    assert clerk.status(Code.UPDATE_USER, frames.ident("boss") + active) == Status.UNAUTHORIZED
    clerk.ok(Code.UPDATE_USER, frames.ident("helper") + inactive)
    clerk.ok(Code.UPDATE_PERMISSIONS, frames.ident("helper") + b"\x00")
    clerk.ok(Code.DELETE_USER, frames.ident("helper"))
    clerk.ok(Code.DELETE_USER, frames.ident("clerk"))
