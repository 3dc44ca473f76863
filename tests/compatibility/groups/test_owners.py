"""Consumer groups, pins and transactions belong to who made them: other users of the topic do not take them over."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection

Connect = Callable[[], RawConnection]
READER = frames.permissions(["read_topics"])


@pytest.fixture
def users(root: RawConnection, stream: str, connect: Connect) -> dict[str, RawConnection]:
    """Two readers of the topic, and a user who manages it."""
    root.create_topic(stream, partitions=2)
    connections = {}
    for name, rights in (
        ("ann", READER),
        ("bob", READER),
        ("manager", frames.permissions(["manage_streams", "manage_topics"])),
    ):
        username = f"{name}-{zlib.crc32(stream.encode())}"
        root.ok(Code.CREATE_USER, frames.create_user(username, "secret", rights))
        connections[name] = connect()
        connections[name].ok(Code.LOGIN_USER, frames.login(username, "secret"))
    return connections


def test_a_group_is_deleted_by_its_owner_or_a_manager(stream: str, users: dict[str, RawConnection]) -> None:
    topic = frames.ident(stream) + frames.ident("t")
    for name in ("one", "two"):
        users["ann"].ok(Code.CREATE_CONSUMER_GROUP, topic + frames.name(name))
    users["bob"].ok(Code.JOIN_CONSUMER_GROUP, topic + frames.ident("one"))
    assert users["bob"].status(Code.DELETE_CONSUMER_GROUP, topic + frames.ident("one")) == Status.UNAUTHORIZED
    assert users["bob"].status(Code.DELETE_CONSUMER_GROUP, topic + frames.ident("two")) == Status.UNAUTHORIZED
    users["ann"].ok(Code.DELETE_CONSUMER_GROUP, topic + frames.ident("one"))
    users["manager"].ok(Code.DELETE_CONSUMER_GROUP, topic + frames.ident("two"))


def test_a_pin_is_read_by_its_owner_and_deleted_by_a_manager(stream: str, users: dict[str, RawConnection]) -> None:
    reader = frames.ident(stream) + frames.name("query")

    def pinned(user: str, value: bytes) -> bytes:
        return users[user].ok(Code.PIN_READER, reader + frames.u32(len(value)) + value)[5:]

    assert pinned("ann", b"start") == b"start"
    assert users["bob"].status(Code.UNPIN_READER, reader) == Status.UNAUTHORIZED
    assert users["bob"].status(Code.PIN_READER, reader + frames.u32(1) + b"x") == Status.UNAUTHORIZED
    assert users["manager"].status(Code.PIN_READER, reader + frames.u32(1) + b"x") == Status.UNAUTHORIZED
    assert pinned("ann", b"later") == b"start"
    users["ann"].ok(Code.UNPIN_READER, reader)
    assert pinned("bob", b"poison") == b"poison"
    users["manager"].ok(Code.UNPIN_READER, reader)
    assert pinned("ann", b"again") == b"again"


def test_a_transaction_goes_on_with_its_owner_or_a_manager(
    stream: str, root: RawConnection, connect: Connect, users: dict[str, RawConnection]
) -> None:
    """A user who may send to some topic of the stream does not end the writing of another one."""
    writers = {"manager": users["manager"]}
    for name in ("cid", "dan"):
        username = f"{name}-{zlib.crc32(stream.encode())}"
        root.ok(Code.CREATE_USER, frames.create_user(username, "secret", frames.permissions(["send_messages"])))
        writers[name] = connect()
        writers[name].ok(Code.LOGIN_USER, frames.login(username, "secret"))

    def committed(user: str, query: str, batch: int, *, fence: bool = False) -> int:
        names = frames.ident(stream) + frames.name("source") + frames.name(query)
        return writers[user].status(
            Code.COMMIT_TRANSACTION, names + frames.u64(batch) + frames.u8(fence) + frames.u32(0)
        )

    assert committed("cid", "run", 1) == Status.OK
    for query in ("run", "other"):
        assert committed("dan", query, 2, fence=True) == Status.UNAUTHORIZED
    assert committed("cid", "run", 2) == Status.OK
    assert committed("manager", "repair", 1, fence=True) == Status.OK
    assert committed("cid", "run", 3, fence=True) == Status.OK
