"""Requests for commands that need a right; none of them does harm."""

from __future__ import annotations

from dataclasses import dataclass

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.rights import rights_for


@dataclass(frozen=True, slots=True)
class Guarded:
    """A command that needs a right, as a request that fails harmlessly when permitted, or changes nothing."""

    code: Code
    payload: bytes
    permitted_status: Status = Status.OK

    @property
    def granted_by(self) -> set[str]:
        """Rights any of which permits the command."""
        return rights_for(self.code)


def guarded(stream: str, topic: str) -> tuple[Guarded, ...]:
    """Return the guarded commands on a topic that has a partition with at most one message and a consumer group `g`."""
    s, t = frames.ident(stream), frames.ident(topic)
    offset = frames.consumer_offset(stream, topic, 0)
    return (
        Guarded(Code.GET_STATS, b""),
        Guarded(Code.GET_CLIENTS, b""),
        Guarded(Code.GET_CLIENT, frames.u32(1)),
        Guarded(Code.GET_SNAPSHOT, b"\x01\x01\x04"),
        Guarded(Code.GET_USER, frames.ident("iggy")),
        Guarded(Code.GET_USERS, b""),
        Guarded(Code.CREATE_USER, frames.create_user("iggy", "secret"), Status.USER_ALREADY_EXISTS),
        Guarded(Code.DELETE_USER, frames.ident("nobody"), Status.RESOURCE_NOT_FOUND),
        Guarded(Code.UPDATE_USER, frames.ident("nobody") + b"\x00\x00", Status.RESOURCE_NOT_FOUND),
        Guarded(Code.UPDATE_PERMISSIONS, frames.ident("nobody") + b"\x00", Status.RESOURCE_NOT_FOUND),
        Guarded(Code.GET_STREAMS, b""),
        Guarded(Code.GET_STREAM, s),
        Guarded(Code.CREATE_STREAM, frames.name(stream), Status.STREAM_NAME_ALREADY_EXISTS),
        Guarded(Code.UPDATE_STREAM, s + frames.name(stream)),
        Guarded(Code.GET_TOPICS, s),
        Guarded(Code.GET_TOPIC, s + t),
        Guarded(Code.CREATE_TOPIC, frames.create_topic(stream, topic), Status.TOPIC_NAME_ALREADY_EXISTS),
        Guarded(Code.UPDATE_TOPIC, frames.update_topic(stream, topic, topic)),
        Guarded(Code.DELETE_PARTITIONS, s + t + frames.u32(999), Status.INVALID_PARTITIONS_COUNT),
        Guarded(Code.DELETE_SEGMENTS, s + t + frames.u32(0) + frames.u32(1)),
        Guarded(Code.POLL_MESSAGES, frames.poll(stream, topic, 0, Strategy.FIRST)),
        Guarded(Code.GET_CONSUMER_OFFSET, offset),
        Guarded(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, topic, 0, 99), Status.INVALID_OFFSET),
        Guarded(
            Code.DELETE_CONSUMER_OFFSET,
            frames.consumer_offset(stream, topic, 0),
            Status.CONSUMER_OFFSET_NOT_FOUND,
        ),
        Guarded(
            Code.SEND_MESSAGES,
            frames.send(stream, topic, frames.to_partition(99), [frames.message(b"m")]),
            Status.PARTITION_NOT_FOUND,
        ),
        Guarded(Code.FLUSH_UNSAVED_BUFFER, s + t + frames.u32(0) + b"\x00"),
        Guarded(Code.GET_CONSUMER_GROUPS, s + t),
        Guarded(Code.GET_CONSUMER_GROUP, s + t + frames.ident("g")),
        Guarded(Code.CREATE_CONSUMER_GROUP, s + t + frames.name("g"), Status.GROUP_NAME_ALREADY_EXISTS),
        Guarded(Code.LEAVE_CONSUMER_GROUP, s + t + frames.ident("g"), Status.GROUP_MEMBER_NOT_FOUND),
    )
