"""Requests for commands that need a right; none of them does harm."""

from __future__ import annotations

from dataclasses import dataclass

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.rights import (
    POLL,
    SEND,
    SERVER,
    STREAM_CREATE,
    STREAM_MANAGE,
    STREAM_READ,
    STREAMS_LIST,
    TOPIC_CREATE,
    TOPIC_MANAGE,
    TOPIC_READ,
    TOPICS_LIST,
    USERS_MANAGE,
    USERS_READ,
)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A command that needs a right, as a request that fails harmlessly when permitted, or changes nothing."""

    code: Code
    payload: bytes
    granted_by: set[str]
    permitted_status: Status = Status.OK


def guarded(stream: str, topic: str) -> tuple[Guarded, ...]:
    """Return the guarded commands on a topic that has a partition with at most one message and a consumer group `g`."""
    s, t = frames.ident(stream), frames.ident(topic)
    offset = frames.consumer_offset(stream, topic, 0)
    return (
        Guarded(Code.GET_STATS, b"", SERVER),
        Guarded(Code.GET_CLIENTS, b"", SERVER),
        Guarded(Code.GET_CLIENT, frames.u32(1), SERVER),
        Guarded(Code.GET_SNAPSHOT, b"\x01\x01\x04", SERVER),
        Guarded(Code.GET_USER, frames.ident("iggy"), USERS_READ),
        Guarded(Code.GET_USERS, b"", USERS_READ),
        Guarded(Code.CREATE_USER, frames.create_user("iggy", "secret"), USERS_MANAGE, Status.USER_ALREADY_EXISTS),
        Guarded(Code.DELETE_USER, frames.ident("nobody"), USERS_MANAGE, Status.RESOURCE_NOT_FOUND),
        Guarded(Code.UPDATE_USER, frames.ident("nobody") + b"\x00\x00", USERS_MANAGE, Status.RESOURCE_NOT_FOUND),
        Guarded(Code.UPDATE_PERMISSIONS, frames.ident("nobody") + b"\x00", USERS_MANAGE, Status.RESOURCE_NOT_FOUND),
        Guarded(Code.GET_STREAMS, b"", STREAMS_LIST),
        Guarded(Code.GET_STREAM, s, STREAM_READ),
        Guarded(Code.CREATE_STREAM, frames.name(stream), STREAM_CREATE, Status.STREAM_NAME_ALREADY_EXISTS),
        Guarded(Code.UPDATE_STREAM, s + frames.name(stream), STREAM_MANAGE),
        Guarded(Code.GET_TOPICS, s, TOPICS_LIST),
        Guarded(Code.GET_TOPIC, s + t, TOPIC_READ),
        Guarded(Code.CREATE_TOPIC, frames.create_topic(stream, topic), TOPIC_CREATE, Status.TOPIC_NAME_ALREADY_EXISTS),
        Guarded(Code.UPDATE_TOPIC, frames.update_topic(stream, topic, topic), TOPIC_MANAGE),
        Guarded(Code.DELETE_PARTITIONS, s + t + frames.u32(999), TOPIC_MANAGE, Status.INVALID_PARTITIONS_COUNT),
        Guarded(Code.DELETE_SEGMENTS, s + t + frames.u32(0) + frames.u32(1), TOPIC_MANAGE),
        Guarded(Code.POLL_MESSAGES, frames.poll(stream, topic, 0, Strategy.FIRST), POLL),
        Guarded(Code.GET_CONSUMER_OFFSET, offset, POLL),
        Guarded(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, topic, 0, 99), POLL, Status.INVALID_OFFSET),
        Guarded(
            Code.DELETE_CONSUMER_OFFSET,
            frames.consumer_offset(stream, topic, 0),
            POLL,
            Status.CONSUMER_OFFSET_NOT_FOUND,
        ),
        Guarded(
            Code.SEND_MESSAGES,
            frames.send(stream, topic, frames.to_partition(99), [frames.message(b"m")]),
            SEND,
            Status.PARTITION_NOT_FOUND,
        ),
        Guarded(Code.FLUSH_UNSAVED_BUFFER, s + t + frames.u32(0) + b"\x00", SEND),
        Guarded(Code.GET_GROUPS, s + t, TOPIC_READ),
        Guarded(Code.GET_GROUP, s + t + frames.ident("g"), TOPIC_READ),
        Guarded(Code.CREATE_GROUP, s + t + frames.name("g"), TOPIC_READ, Status.GROUP_NAME_ALREADY_EXISTS),
        Guarded(Code.LEAVE_GROUP, s + t + frames.ident("g"), TOPIC_READ, Status.GROUP_MEMBER_NOT_FOUND),
    )
