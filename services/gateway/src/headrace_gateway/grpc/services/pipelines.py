"""Requests of data pipelines before and after they access partitions directly at partition nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.conversions import identifier
from headrace_gateway.grpc.services.transactions import Transactions
from headrace_gateway.grpc.streams import Streams
from headrace_gateway.ports import TopicPlaces, Topics
from headrace_node.connections.partition_bounds import Ends, Place, ends_of
from headrace_node.connections.sessions import Session
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.well_known import ROOT_USER_ID

_PARTITIONS_MAX: Final = 10_000
# Timeout of a description; expires if the node of a partition does not answer. The caller may retry elsewhere.
_TIMEOUT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0
# Timeout for finding the unreachable node for the error message.
_EXPLANATION_SECONDS: Final = 3.0
# Maximum number of pipelined requests.
_IN_FLIGHT: Final = 64
# An id that no topic of a stream and no partition of a topic has.
_NO_TOPIC: Final = 2**32 - 1
_NO_PARTITION: Final = 2**32 - 1

_Topic = tuple[int | str, int | str]


class Pipelines(Transactions):
    """``headrace.gateway.v1.Pipelines``."""

    def __init__(self, streams: Streams, topics: Topics) -> None:
        self._streams = streams
        self._topics = topics

    async def describe_topics(self, request: v1.DescribeTopicsRequest, caller: Caller) -> v1.DescribeTopicsResponse:
        stream = identifier(request.stream, "stream")
        named = [identifier(topic, "topics") for topic in request.topics]
        topics: Sequence[TopicPlaces] = ()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                topics = await self._named(caller, stream, named) if named else await self._usable(caller, stream)
                if sum(len(topic.grpc_addresses) for topic in topics) > _PARTITIONS_MAX:
                    raise Refused(Status.INVALID_COMMAND, f"more than {_PARTITIONS_MAX} partitions: name fewer topics")
                ends = await self._ends(topics)
                sizes = await _sizes(caller, topics) if request.with_sizes else {}
        except TimeoutError:
            reason = await _silent(caller, topics) or "a partition did not report its end offset in time"
            raise Refused(Status.PARTITION_UNAVAILABLE, reason, retry_after_seconds=_RETRY_SECONDS) from None
        return v1.DescribeTopicsResponse(topics=[_described(topic, ends, sizes) for topic in topics])

    async def issue_ticket(self, request: v1.IssueTicketRequest, caller: Caller) -> v1.IssueTicketResponse:
        command = core.encode_issue_ticket(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            read=request.read,
            write=request.write,
            lifetime_seconds=request.lifetime_seconds,
        )
        issued = core.decode_issued_ticket(await caller.execute(command))
        return v1.IssueTicketResponse(ticket=issued.ticket, not_after_seconds=issued.not_after)

    async def _named(self, caller: Caller, stream: int | str, named: Sequence[int | str]) -> list[TopicPlaces]:
        async with caller.sessions.of(caller.user_id) as session:
            statuses = await _statuses_of_use(session, [(stream, topic) for topic in named])
        found: dict[tuple[int, int], TopicPlaces] = {}
        for topic, status in zip(named, statuses, strict=True):
            if status != Status.OK:
                raise Refused(status)
            places = self._topics.find_topic(stream, topic)
            if places is None:
                raise Refused(Status.TOPIC_ID_NOT_FOUND)
            found[places.stream_id, places.id] = places
        return list(found.values())

    async def _usable(self, caller: Caller, stream: int | str) -> list[TopicPlaces]:
        topics = self._topics.topics_of(stream)
        async with caller.sessions.of(caller.user_id) as session:
            if topics is None:
                # Before the shards report a missing topic, they catch up with the changes of other gateways.
                (status,) = await _statuses_of_use(session, [(stream, _NO_TOPIC)])
                topics = self._topics.topics_of(stream)
                if topics is None and status == Status.UNAUTHORIZED:
                    # Answered like a stream in which the caller has no permission.
                    return []
            if topics is None:
                raise Refused(Status.STREAM_ID_NOT_FOUND)
            statuses = await _statuses_of_use(session, [(topic.stream_id, topic.id) for topic in topics])
        return [topic for topic, status in zip(topics, statuses, strict=True) if status == Status.OK]

    async def _ends(self, topics: Iterable[TopicPlaces]) -> dict[Place, Ends]:
        # The permission has been checked already; callers with only the send permission also learn the end of a
        # partition.
        async with self._streams.session(ROOT_USER_ID) as session:
            return await ends_of(
                session, [(topic.stream_id, topic.id, range(len(topic.grpc_addresses))) for topic in topics]
            )


async def _statuses_of_use(session: Session, topics: Sequence[_Topic]) -> list[int]:
    """Return for each topic the status of a poll or a send by the session's user: success if one is allowed.

    The shards decide, as for messages: they are asked to perform operations without effect.
    """
    polling = [core.encode_watch_partitions(topics=[(stream, topic, ())]) for stream, topic in topics]
    statuses = await _statuses(session, polling)
    others = [place for place, status in enumerate(statuses) if status == Status.UNAUTHORIZED]
    sending = [
        core.encode_flush_unsaved_buffer(stream=stream, topic=topic, partition=_NO_PARTITION)
        for stream, topic in (topics[place] for place in others)
    ]
    for place, status in zip(others, await _statuses(session, sending), strict=True):
        statuses[place] = Status.OK if status == Status.PARTITION_NOT_FOUND else status
    return statuses


async def _statuses(session: Session, commands: Sequence[tuple[int, bytes]]) -> list[int]:
    statuses: list[int] = []
    for begin in range(0, len(commands), _IN_FLIGHT):
        some = commands[begin : begin + _IN_FLIGHT]
        for command in some:
            await session.send(*command)
        for _ in some:
            status, _ = await session.receive()
            statuses.append(status)
    return statuses


async def _silent(caller: Caller, topics: Iterable[TopicPlaces]) -> str | None:
    """Return the name of a partition with an unreachable node, if one is found within the timeout."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXPLANATION_SECONDS):
            for topic in topics:
                command = core.encode_describe_partitions(stream=topic.stream_id, topic=topic.id)
                status, payload = await caller.sessions.call(ROOT_USER_ID, *command)
                for found in core.decode_partition_descriptions(payload) if status == Status.OK else ():
                    if found.state == "unreachable":
                        place = f"partition {found.id} of topic {topic.name!r} in stream {topic.stream_name!r}"
                        return f"{place} is on node {found.node!r}, which is not reached"
    return None


async def _sizes(caller: Caller, topics: Iterable[TopicPlaces]) -> dict[Place, int]:
    sizes: dict[Place, int] = {}
    for topic in topics:
        command = core.encode_get_topic(stream=topic.stream_id, topic=topic.id)
        status, payload = await caller.sessions.call(ROOT_USER_ID, *command)
        found = core.decode_topic(payload) if status == Status.OK else None
        for partition in found.partitions if found is not None else ():
            sizes[topic.stream_id, topic.id, partition.id] = partition.size_bytes
    return sizes


def _described(topic: TopicPlaces, ends: dict[Place, Ends], sizes: dict[Place, int]) -> v1.TopicDescription:
    described = v1.TopicDescription(
        stream_id=topic.stream_id,
        stream_name=topic.stream_name,
        topic_id=topic.id,
        topic_name=topic.name,
        incarnation=topic.incarnation,
    )
    for partition_id, address in enumerate(topic.grpc_addresses):
        place = (topic.stream_id, topic.id, partition_id)
        end = ends[place]
        described.partitions.add(
            partition_id=partition_id,
            messages_count=end.next_offset - end.first_offset,
            size_bytes=sizes.get(place),
            grpc_address=address,
            **end._asdict(),
        )
    return described
