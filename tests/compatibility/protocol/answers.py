"""Decoders for responses of the binary protocol that account for every byte."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tests.compatibility.protocol.frames import MESSAGE_HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message."""

    checksum: int
    message_id: int
    offset: int
    timestamp: int
    origin: int
    reserved: int
    payload: bytes
    headers: bytes


@dataclass(frozen=True, slots=True)
class Polled:
    """Response to a poll."""

    partition: int
    current_offset: int
    messages: tuple[Message, ...]

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]

    @property
    def offsets(self) -> list[int]:
        return [message.offset for message in self.messages]


def polled(answer: bytes) -> Polled:
    """Decode the response to a poll; every byte has to be consumed."""
    partition, current_offset, count = struct.unpack_from("<IQI", answer)
    at, messages = 16, []
    for _ in range(count):
        checksum, low, high, offset, timestamp, origin, headers_length, payload_length, reserved = struct.unpack_from(
            "<QQQQQQIIQ", answer, at
        )
        at += MESSAGE_HEADER_BYTES
        payload = answer[at : at + payload_length]
        headers = answer[at + payload_length : at + payload_length + headers_length]
        at += payload_length + headers_length
        messages.append(Message(checksum, high << 64 | low, offset, timestamp, origin, reserved, payload, headers))
    assert at == len(answer), f"{len(answer) - at} bytes behind the last message"
    return Polled(partition, current_offset, tuple(messages))


class Reader:
    """Decoder that consumes a response field by field."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._answer)

    def take(self, form: str) -> tuple[int | float, ...]:
        values = struct.unpack_from("<" + form, self._answer, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def numbers(self, form: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self.take(form))

    def number(self, form: str) -> int:
        (value,) = self.numbers(form)
        return value

    def bytes(self, length: int) -> bytes:
        assert self._at + length <= len(self._answer), "the answer is shorter than it says"
        self._at += length
        return self._answer[self._at - length : self._at]

    def name(self) -> str:
        return self.bytes(self.number("B")).decode()

    def str32(self) -> str:
        return self.bytes(self.number("I")).decode()


@dataclass(frozen=True, slots=True)
class Stream:
    id: int
    created_at: int
    topics_count: int
    size_bytes: int
    messages_count: int
    name: str

    @staticmethod
    def read(reader: Reader) -> Stream:
        identity, created_at, topics_count, size_bytes, messages_count = reader.numbers("IQIQQ")
        return Stream(identity, created_at, topics_count, size_bytes, messages_count, reader.name())


@dataclass(frozen=True, slots=True)
class Topic:
    id: int
    created_at: int
    partitions_count: int
    expiry: int
    compression: int
    max_size: int
    replication: int
    size_bytes: int
    messages_count: int
    name: str

    @staticmethod
    def read(reader: Reader) -> Topic:
        identity, created_at, partitions_count, expiry, *limits = reader.numbers("IQIQBQBQQ")
        compression, max_size, replication, size_bytes, messages_count = limits
        return Topic(
            identity,
            created_at,
            partitions_count,
            expiry,
            compression,
            max_size,
            replication,
            size_bytes,
            messages_count,
            reader.name(),
        )


@dataclass(frozen=True, slots=True)
class Partition:
    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size_bytes: int
    messages_count: int

    @staticmethod
    def read(reader: Reader) -> Partition:
        return Partition(*reader.numbers("IQIQQQ"))


def stream_details(answer: bytes) -> tuple[Stream, list[Topic]]:
    reader = Reader(answer)
    stream = Stream.read(reader)
    topics = [Topic.read(reader) for _ in range(stream.topics_count)]
    assert reader.is_at_end
    return stream, topics


def topic_details(answer: bytes) -> tuple[Topic, list[Partition]]:
    reader = Reader(answer)
    topic = Topic.read(reader)
    partitions = [Partition.read(reader) for _ in range(topic.partitions_count)]
    assert reader.is_at_end
    return topic, partitions


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group without its members."""

    id: int
    partitions_count: int
    members_count: int
    name: str

    @staticmethod
    def read(reader: Reader) -> Group:
        return Group(*reader.numbers("III"), reader.name())


def group_details(answer: bytes) -> tuple[Group, dict[int, list[int]]]:
    """Decode a group and the partitions that each member owns, by member number."""
    reader = Reader(answer)
    group = Group.read(reader)
    members = {}
    for _ in range(group.members_count):
        member_id, count = reader.numbers("II")
        members[member_id] = [reader.number("I") for _ in range(count)]
    assert reader.is_at_end
    assert list(members) == sorted(members)
    return group, members


def groups(answer: bytes) -> list[Group]:
    """Decode a list of groups."""
    reader = Reader(answer)
    found = []
    while not reader.is_at_end:
        found.append(Group.read(reader))
    return found
