"""Scripted member of a consumer group, on a connection of its own."""

from __future__ import annotations

import struct

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Polled, group_details
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import PASSWORD, USERNAME

NOTHING = Polled(0, 0, ())
"""Response to a poll of a member that has nothing to poll."""


class Group:
    """The group `g` of topic `t` in a stream, seen from outside."""

    def __init__(self, connection: RawConnection, stream: str, *, partitions: int = 1) -> None:
        """Create the stream, its topic and its group."""
        self.connection = connection
        self.stream = stream
        self.topic = frames.ident(stream) + frames.ident("t")
        self.path = self.topic + frames.ident("g")
        self.members: list[Member] = []
        connection.create_topic(stream, partitions=partitions)
        connection.ok(Code.CREATE_CONSUMER_GROUP, self.topic + frames.name("g"))

    def owned(self) -> dict[int, list[int]]:
        """Return the partitions that each member owns, by member number."""
        _, members = group_details(self.connection.ok(Code.GET_CONSUMER_GROUP, self.path))
        everything = [partition for partitions in members.values() for partition in partitions]
        assert len(everything) == len(set(everything)), "a partition has two owners"
        return members

    def join(self) -> Member:
        """Add a member."""
        member = Member(self)
        self.members.append(member)
        member.connection.ok(Code.JOIN_CONSUMER_GROUP, self.path)
        return member

    def close(self) -> None:
        """Close the connections of all members."""
        for member in self.members:
            member.close()

    def send(self, partition: int, *payloads: bytes) -> None:
        """Append one batch."""
        self.connection.send(self.stream, "t", partition, *payloads)

    def stored_offset(self, partition: int) -> int | None:
        """Return the stored offset of the group."""
        return self.connection.stored_offset(self.stream, "t", partition, who=frames.consumer("g", group=True))


class Member:
    """A connection that is, or will be, a member of the group."""

    def __init__(self, group: Group) -> None:
        self.group = group
        host, port = group.connection.socket.getpeername()
        self.connection = RawConnection.as_user(f"{host}:{port}", USERNAME, PASSWORD)
        self.who = frames.consumer("g", group=True)

    def poll(
        self,
        partition: int | None = None,
        *,
        count: int = 100,
        auto_commit: bool = False,
        strategy: Strategy = Strategy.NEXT,
    ) -> Polled:
        """Poll the next messages; without a partition, the server chooses one of the owned partitions in turn."""
        return self.connection.poll(
            self.group.stream, "t", partition, strategy, count=count, auto_commit=auto_commit, who=self.who
        )

    def store(self, partition: int | None, offset: int) -> int:
        """Store an offset; returns the status."""
        payload = frames.consumer_offset(self.group.stream, "t", partition, offset, who=self.who)
        return self.connection.status(Code.STORE_CONSUMER_OFFSET, payload)

    def delete_offset(self, partition: int | None) -> int:
        """Delete a stored offset; returns the status."""
        payload = frames.consumer_offset(self.group.stream, "t", partition, who=self.who)
        return self.connection.status(Code.DELETE_CONSUMER_OFFSET, payload)

    def membership(self) -> tuple[int, list[tuple[int, bool]]]:
        """Ask for the member's id and the owned partitions, each with whether it is being revoked."""
        answer = self.connection.ok(Code.GET_MEMBERSHIP, self.group.path)
        member, count = struct.unpack_from("<II", answer)
        assert len(answer) == 8 + 5 * count
        return member, [(partition, bool(leaving)) for partition, leaving in struct.iter_unpack("<IB", answer[8:])]

    def leave(self) -> None:
        """End the membership."""
        self.connection.ok(Code.LEAVE_CONSUMER_GROUP, self.group.path)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
