"""Combinations of rights while streams and topics are created and deleted: decisions match the grants (CTL-9).

Covers the whole path: the record in a request, the state machine that stores it, the catalog view by which shards
decide. The server's responses are compared with a plain table of rights.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.guarded import guarded
from tests.compatibility.protocol.raw import RawConnection
from tests.property_runs import bounded
from tests.rights import (
    GLOBAL_RIGHTS,
    STREAM_CREATE,
    STREAM_MANAGE,
    STREAM_RIGHTS,
    TOPIC_CREATE,
    TOPIC_MANAGE,
    TOPIC_READ,
    TOPIC_RIGHTS,
    Rights,
)
from tests.server_process import ServerProcess

PLACES = range(3)
places = st.sampled_from(PLACES)
who = st.sampled_from(["root", "limited"])
EVERYTHING = Rights(GLOBAL_RIGHTS)


def some_of(rights: tuple[str, ...], at_most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(rights), unique=True, max_size=at_most)


grants = st.builds(
    Rights,
    # Few rights at a time: with many of them nearly everything would be permitted.
    st.just([]) | some_of(GLOBAL_RIGHTS, 2),
    st.dictionaries(places, some_of(STREAM_RIGHTS, 2), max_size=2),
    st.dictionaries(st.tuples(places, places), some_of(TOPIC_RIGHTS, 2), max_size=3),
)


class Decisions(RuleBasedStateMachine):
    """Alternating requests of root and a user with random rights; permitted commands take effect."""

    def __init__(self, admin: RawConnection, limited: RawConnection) -> None:
        super().__init__()
        self.connections = {"root": admin, "limited": limited}
        for stream in PLACES:
            admin.status(Code.DELETE_STREAM, frames.ident(stream))
        admin.ok(Code.UPDATE_PERMISSIONS, frames.ident("limited") + b"\x00")
        self.rights = Rights()
        self.streams: dict[int, set[int]] = {}
        for stream in (0, 1):
            self.create_stream("root")
            for _ in range(2):
                self.create_topic("root", stream)

    def attempt(
        self, who: str, code: Code, payload: bytes, granted_by: set[str], stream: int = 0, topic: int = 0
    ) -> bool:
        """Send a request that succeeds if permitted; return whether it was."""
        rights = EVERYTHING if who == "root" else self.rights
        permitted = rights.allow(granted_by, stream, topic)
        status = self.connections[who].status(code, payload)
        assert status == (Status.OK if permitted else Status.UNAUTHORIZED), (code, self.rights)
        return permitted

    def at_some_topic(self, number: int) -> tuple[int, int]:
        existing = [(stream, topic) for stream in sorted(self.streams) for topic in sorted(self.streams[stream])]
        return existing[number % len(existing)]

    def ask_for_everything(self, stream: int, topic: int) -> None:
        """Try every guarded command on one topic."""
        # Skip the diagnostics: building the archive is slow, and its right is that of the statistics.
        commands = [it for it in guarded(f"s{stream}", f"t{topic}") if it.code is not Code.GET_SNAPSHOT]
        answers = {it.code: self.connections["limited"].status(it.code, it.payload) for it in commands}
        expected = {
            it.code: it.permitted_status if self.rights.allow(it.granted_by, stream, topic) else Status.UNAUTHORIZED
            for it in commands
        }
        assert answers == expected, (stream, topic, self.rights)

    @rule(rights=grants)
    def grant(self, rights: Rights) -> None:
        record = frames.permissions(rights.everywhere, streams=rights.streams, topics=rights.topics)
        payload = frames.ident("limited") + frames.opt_permissions(record)
        self.connections["root"].ok(Code.UPDATE_PERMISSIONS, payload)
        self.rights = Rights(rights.everywhere, rights.streams, rights.topics)
        for stream, topics in self.streams.items():
            for topic in topics:
                self.ask_for_everything(stream, topic)

    @precondition(lambda self: len(self.streams) < len(PLACES))
    @rule(who=who)
    def create_stream(self, who: str) -> None:
        stream = min(set(PLACES) - set(self.streams))
        if self.attempt(who, Code.CREATE_STREAM, frames.name(f"s{stream}"), STREAM_CREATE):
            self.streams[stream] = set()

    @precondition(lambda self: self.streams)
    @rule(who=who, number=places)
    def create_topic(self, who: str, number: int) -> None:
        stream = sorted(self.streams)[number % len(self.streams)]
        if len(self.streams[stream]) == len(PLACES):
            return
        topic = min(set(PLACES) - self.streams[stream])
        payload = frames.create_topic(stream, f"t{topic}")
        if self.attempt(who, Code.CREATE_TOPIC, payload, TOPIC_CREATE, stream):
            self.streams[stream].add(topic)
            self.connections["root"].ok(
                Code.CREATE_CONSUMER_GROUP, frames.ident(stream) + frames.ident(topic) + frames.name("g")
            )

    @precondition(lambda self: self.streams)
    @rule(who=who, number=places, purges=st.booleans())
    def delete_or_purge_stream(self, who: str, number: int, purges: bool) -> None:
        stream = sorted(self.streams)[number % len(self.streams)]
        code = Code.PURGE_STREAM if purges else Code.DELETE_STREAM
        if self.attempt(who, code, frames.ident(stream), STREAM_MANAGE, stream) and not purges:
            del self.streams[stream]
            self.rights.forget_stream(stream)

    @precondition(lambda self: any(self.streams.values()))
    @rule(who=who, number=st.integers(0, 8), purges=st.booleans())
    def delete_or_purge_topic(self, who: str, number: int, purges: bool) -> None:
        stream, topic = self.at_some_topic(number)
        code = Code.PURGE_TOPIC if purges else Code.DELETE_TOPIC
        path = frames.ident(stream) + frames.ident(topic)
        if self.attempt(who, code, path, TOPIC_MANAGE, stream, topic) and not purges:
            self.streams[stream].remove(topic)
            self.rights.forget_topic(stream, topic)
            # The next topic reuses the number and must not inherit the rights.
            if topic == min(set(PLACES) - self.streams[stream]):
                self.create_topic("root", sorted(self.streams).index(stream))
                self.ask_for_everything(stream, topic)

    @precondition(lambda self: any(self.streams.values()))
    @rule(number=st.integers(0, 8))
    def join_and_leave_a_group(self, number: int) -> None:
        stream, topic = self.at_some_topic(number)
        group = frames.ident(stream) + frames.ident(topic) + frames.ident("g")
        if self.attempt("limited", Code.JOIN_CONSUMER_GROUP, group, TOPIC_READ, stream, topic):
            self.attempt("limited", Code.LEAVE_CONSUMER_GROUP, group, TOPIC_READ, stream, topic)


@pytest.fixture(scope="module")
def connections(shared_server: ServerProcess) -> Iterator[tuple[RawConnection, RawConnection]]:
    """Connections of root and of a user whose rights change."""
    with RawConnection.as_root(shared_server.address) as admin:
        admin.ok(Code.CREATE_USER, frames.create_user("limited", "secret"))
        with RawConnection.as_user(shared_server.address, "limited", "secret") as limited:
            yield admin, limited


@pytest.mark.long
def test_decisions_are_those_of_the_table(connections: tuple[RawConnection, RawConnection]) -> None:
    """Decisions match the table after any sequence of grants, creations and deletions."""
    run_state_machine_as_test(lambda: Decisions(*connections), settings=bounded(examples=8, steps=30))
