"""Streams and topics, seen by their creator and at the other gateway, and their statistics (CTL-1, GW-8)."""

from __future__ import annotations

import pytest

from headrace_proto.gateway import v1
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import stream_details, topic_details
from tests.compatibility.protocol.codes import Code, Status
from tests.journeys.conftest import At
from tests.journeys.deployment.api_clients import BinaryApi, GrpcApi, HttpApi, Refused, Sent, called
from tests.journeys.deployment.eventually import refused_soon, until
from tests.journeys.deployment.place import Gateway, Place

MISSING = (
    Status.STREAM_NOT_FOUND,
    Status.TOPIC_NOT_FOUND,
    Status.PARTITION_NOT_FOUND,
    Status.RESOURCE_NOT_FOUND,
)


def path_of(stream: str) -> bytes:
    return frames.ident(stream) + frames.ident("t")


def test_changes_are_seen_at_once_by_their_author(place: Place, root: BinaryApi, name: str) -> None:
    """Create, use, purge, use, delete, recreate, use: the next request sees the effect of each response."""
    for api in (root, *(BinaryApi(gateway, place.root) for gateway in place.gateways[1:])):
        stream = f"{name}-{api.gateway.tcp.rpartition(':')[2]}"
        for life in range(5):
            api.connection.create_topic(stream, partitions=3)
            for partition in range(3):
                sent = [Sent(b"%d %d %d" % (life, partition, number), 1) for number in range(4)]
                api.send(stream, *sent, partition=partition)
                assert api.read(stream, 100, partition=partition) == sent
                api.store(stream, "reader", 2, partition=partition)
            api.connection.ok(Code.PURGE_TOPIC, path_of(stream))
            for partition in range(3):
                assert api.read(stream, 100, partition=partition) == []
                again = Sent(b"after the purge", 2)
                api.send(stream, again, partition=partition)
                assert api.read(stream, 100, partition=partition) == [again]
                assert api.next_offset(stream, "reader", partition=partition) == 0, "offsets were purged, too"
            api.connection.ok(Code.CREATE_PARTITIONS, path_of(stream) + frames.u32(1))
            api.send(stream, Sent(b"new"), partition=3)
            api.connection.ok(Code.DELETE_PARTITIONS, path_of(stream) + frames.u32(1))
            with pytest.raises(Refused, match="PARTITION_NOT_FOUND"):
                api.send(stream, Sent(b"gone"), partition=3)
            api.connection.ok(Code.DELETE_STREAM, frames.ident(stream))
            with pytest.raises(Refused, match="STREAM_NOT_FOUND"):
                api.read(stream, 1)
        if api is not root:
            api.close()


def test_made_at_one_gateway_used_at_the_other(place: Place, root: BinaryApi, at: At, name: str) -> None:
    """Purged, deleted and recreated objects of the same name are seen at the other gateway, too."""
    there = at(BinaryApi, place.there)
    for life in range(3):
        root.connection.create_topic(name, partitions=2)
        message = Sent(b"life %d" % life, 1)
        for partition in range(2):
            there.send(name, message, partition=partition)
            assert root.read(name, 10, partition=partition) == [message]
        there.connection.ok(Code.PURGE_STREAM, frames.ident(name))
        # Each partition is purged at its own node.
        until("the purge is seen", lambda: not any(root.read(name, 10, partition=partition) for partition in range(2)))
        root.send(name, message, partition=0)
        assert there.read(name, 10, partition=0) == [message]
        there.connection.ok(Code.DELETE_STREAM, frames.ident(name))
        refused_soon(lambda: root.read(name, 1), *MISSING)


def test_through_every_api(place: Place, root: BinaryApi, at: At, name: str) -> None:
    """A stream made by HTTP gets a topic by gRPC, messages by the binary protocol, and its end by HTTP."""
    web, calls = at(HttpApi, place.here), at(GrpcApi, place.there)
    web.ask("POST", "/streams", {"name": name})
    request = v1.CreateTopicRequest(
        stream=v1.Identifier(name=name), settings=v1.TopicSettings(name="t"), partitions_count=2
    )
    called(calls.caller.catalog.CreateTopic, request)
    root.send(name, Sent(b"m", 1), partition=1)
    assert calls.read(name, 1, partition=1) == [Sent(b"m", 1)]
    web.ask("DELETE", f"/streams/{name}")
    refused_soon(lambda: calls.read(name, 1, partition=1), *MISSING)


def counted(api: BinaryApi, stream: str) -> tuple[int, int, list[tuple[int, int, int]]]:
    """Messages and bytes of a topic; messages, bytes and newest offset of each partition."""
    topic, partitions = topic_details(api.connection.ok(Code.GET_TOPIC, path_of(stream)))
    places = [(it.messages_count, it.size_bytes, it.current_offset) for it in partitions]
    return topic.messages_count, topic.size_bytes, places


def test_counts_after_sending(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """Counts are current at once at every gateway and in every API with counts; totals are sums over partitions."""
    sizes = [0, 0, 0, 0]
    for number in range(10):
        for partition in range(4):
            payload = bytes(1 + 100 * partition + number)
            root.send(stream, Sent(payload, 1), partition=partition)
            sizes[partition] += 64 + len(payload)
    expected = (40, sum(sizes), [(10, size, 9) for size in sizes])
    for gateway in place.gateways:
        assert counted(at(BinaryApi, gateway), stream) == expected
        found, (topic,) = stream_details(at(BinaryApi, gateway).connection.ok(Code.GET_STREAM, frames.ident(stream)))
        assert (found.messages_count, found.size_bytes, topic.messages_count) == (40, sum(sizes), 40)
        of_web = at(HttpApi, gateway).ask("GET", f"/streams/{stream}/topics/t")
        assert of_web["messages_count"] == 40
        assert [(it["messages_count"], it["current_offset"]) for it in of_web["partitions"]] == [(10, 9)] * 4
        of_call = topic_by_call(at(GrpcApi, gateway), stream)
        assert (of_call.topic.messages_count, of_call.topic.size_bytes) == (40, sum(sizes))
        assert [it.size_bytes for it in of_call.partitions] == sizes
        assert totals(gateway, place) >= 40
    root.connection.ok(Code.PURGE_TOPIC, path_of(stream))
    assert counted(root, stream)[:2] == (0, 0)


def topic_by_call(api: GrpcApi, stream: str) -> v1.GetTopicResponse:
    request = v1.GetTopicRequest(stream=v1.Identifier(name=stream), topic=v1.Identifier(name="t"))
    response: v1.GetTopicResponse = called(api.caller.catalog.GetTopic, request)
    return response


def totals(gateway: Gateway, place: Place) -> int:
    """Messages of everything, by the statistics of the whole."""
    with GrpcApi(gateway, place.root) as api:
        return int(called(api.caller.system.GetStatistics, v1.GetStatisticsRequest()).messages_count)


def test_a_name_is_taken_everywhere(place: Place, root: BinaryApi, at: At, name: str) -> None:
    """The second creation of a name is refused at any gateway."""
    root.connection.create_topic(name)
    there = at(BinaryApi, place.there)
    assert there.connection.status(Code.CREATE_STREAM, frames.name(name)) == Status.STREAM_NAME_ALREADY_EXISTS
    assert there.connection.ok(Code.GET_TOPIC, path_of(name))
