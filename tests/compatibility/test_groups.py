"""Consumer groups: not there yet, and that is said with the documented statuses."""

from __future__ import annotations

import pytest

from tests.compatibility import frames
from tests.compatibility.codes import Code, Status
from tests.compatibility.raw import RawConnection

PATH = frames.ident("s") + frames.ident("t")


@pytest.fixture
def target(root: RawConnection) -> RawConnection:
    """With a topic `t` in stream `s`."""
    if not root.ok(Code.GET_STREAM, frames.ident("s")):
        root.create_topic("s")
    return root


@pytest.mark.parametrize("group", [0, 7, "g"])
def test_there_are_none(target: RawConnection, group: int | str) -> None:
    """Queries find nothing; whoever names one is told that it does not exist."""
    assert target.ok(Code.GET_GROUPS, PATH) == b""
    assert target.ok(Code.GET_GROUP, PATH + frames.ident(group)) == b""
    for code in (Code.DELETE_GROUP, Code.JOIN_GROUP, Code.LEAVE_GROUP):
        assert target.status(code, PATH + frames.ident(group)) == Status.GROUP_NOT_FOUND
        missing_topic = frames.ident("s") + frames.ident("nothing") + frames.ident(group)
        assert target.status(code, missing_topic) == Status.TOPIC_NOT_FOUND
        missing_stream = frames.ident("nowhere") + frames.ident("t") + frames.ident(group)
        assert target.status(code, missing_stream) == Status.STREAM_NOT_FOUND


def test_none_can_be_made(target: RawConnection) -> None:
    """A feature that this server does not offer; parents are looked up first."""
    assert target.status(Code.CREATE_GROUP, PATH + frames.name("g")) == Status.FEATURE_UNAVAILABLE
    for place, status in (
        (frames.ident("nowhere") + frames.ident("t"), Status.STREAM_NOT_FOUND),
        (frames.ident("s") + frames.ident("nothing"), Status.TOPIC_NOT_FOUND),
    ):
        assert target.status(Code.CREATE_GROUP, place + frames.name("g")) == status
        assert target.ok(Code.GET_GROUPS, place) == b""
    assert target.ok(Code.GET_GROUPS, PATH) == b""
    assert target.is_alive()
