"""Consumer groups whose members join through any API of any gateway, leave and die (CTL-8, GW-8)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest

from headrace_proto.gateway import v1
from tests.compatibility.groups.processes import Consumer, assignment, check_receipts
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy
from tests.journeys.conftest import At
from tests.journeys.deployment.api_clients import BinaryApi, GrpcApi, HttpApi, Sent
from tests.journeys.deployment.eventually import until
from tests.journeys.deployment.place import Gateway, Place

PARTITIONS_COUNT = 4
GROUP = frames.consumer("g", group=True)


def create_group(root: BinaryApi, stream: str) -> None:
    root.connection.ok(Code.CREATE_CONSUMER_GROUP, frames.ident(stream) + frames.ident("t") + frames.name("g"))


def shares(root: BinaryApi, stream: str) -> list[int]:
    """Number of partitions of each member in ascending order; no partition has two owners."""
    owned = assignment(root.connection, stream, "g").values()
    everything = [partition for partitions in owned for partition in partitions]
    assert len(everything) == len(set(everything))
    return sorted(map(len, owned))


@pytest.fixture
def consumers(place: Place, stream: str, tmp_path: Path) -> Iterator[Callable[[Gateway], Consumer]]:
    """Start processes with the official client, as members of the group `g`."""
    started: list[Consumer] = []
    with ExitStack() as stack:

        def start(gateway: Gateway) -> Consumer:
            account = (place.root.username, place.root.password)
            consumer = Consumer(len(started), gateway.tcp, stream, "g", tmp_path, account)
            stack.callback(consumer.end, kill=True)
            started.append(consumer)
            return consumer

        yield start


def test_one_leaves_and_one_is_killed(
    place: Place, root: BinaryApi, stream: str, consumers: Callable[[Gateway], Consumer]
) -> None:
    """Official clients at two gateways: no message is missed, and no partition has two owners at a time."""
    create_group(root, stream)
    counts = dict.fromkeys(range(PARTITIONS_COUNT), 0)

    def send() -> None:
        for partition in counts:
            root.send(stream, *(Sent(b"m") for _ in range(15)), partition=partition)
            counts[partition] += 15

    first, second = consumers(place.here), consumers(place.there)
    until("two members", lambda: shares(root, stream) == [2, 2])
    send()
    second.end(kill=False)
    until("one has left", lambda: shares(root, stream) == [4])
    third = consumers(place.there)
    send()
    until("another one has come", lambda: shares(root, stream) == [2, 2])
    send()
    first.end(kill=True)
    until("one was killed", lambda: shares(root, stream) == [4])
    send()
    until(
        "everything is dealt with",
        lambda: all(
            root.connection.stored_offset(stream, "t", partition, who=GROUP) == count - 1
            for partition, count in counts.items()
        ),
    )
    third.end(kill=False)
    all_of_them = (first, second, third)
    receipts = sorted((it for one in all_of_them for it in one.receipts()), key=lambda it: it.at_ns)
    check_receipts(receipts, counts, {one.number: one.stopped_at_ns or 0 for one in all_of_them})


class HttpMember:
    """A member without a connection."""

    def __init__(self, api: HttpApi, stream: str) -> None:
        self._api = api
        group = f"/streams/{stream}/topics/t/consumer-groups/g/members"
        self._path = f"{group}/{api.ask('POST', group)['member']}"

    def take(self) -> list[tuple[int, int]]:
        polled = self._api.ask("GET", f"{self._path}/messages?auto_commit=true&count=100")
        return [(polled["partition_id"], it["header"]["offset"]) for it in polled["messages"]]

    def leave(self) -> None:
        self._api.ask("DELETE", self._path)


class BinaryMember:
    """A connection that is a member."""

    def __init__(self, api: BinaryApi, stream: str) -> None:
        self._connection, self._stream = api.connection, stream
        self._path = frames.ident(stream) + frames.ident("t") + frames.ident("g")
        self._connection.ok(Code.JOIN_CONSUMER_GROUP, self._path)

    def take(self) -> list[tuple[int, int]]:
        polled = self._connection.poll(self._stream, "t", None, Strategy.NEXT, auto_commit=True, who=GROUP)
        return [(polled.partition, offset) for offset in polled.offsets]

    def leave(self) -> None:
        self._connection.ok(Code.LEAVE_CONSUMER_GROUP, self._path)


class GrpcMember:
    """A call that is a member."""

    def __init__(self, api: GrpcApi, stream: str) -> None:
        self._steps: queue.Queue[v1.ConsumeRequest | None] = queue.Queue()
        consumer = v1.Consumer(group=v1.Identifier(name="g"))
        subscribe = v1.Subscribe(
            stream=v1.Identifier(name=stream), topic=v1.Identifier(name="t"), consumer=consumer, auto_commit=True
        )
        self._steps.put(v1.ConsumeRequest(subscribe=subscribe))
        self._call = api.caller.subscriptions.Consume(iter(self._steps.get, None), timeout=240)
        assert next(self._call).WhichOneof("event") == "subscribed"
        self._received: queue.Queue[v1.Batch] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def take(self) -> list[tuple[int, int]]:
        found = []
        while not self._received.empty():
            batch = self._received.get()
            found += [(batch.partition_id, message.offset) for message in batch.messages]
        return found

    def leave(self) -> None:
        self._steps.put(v1.ConsumeRequest(finish=v1.ConsumeRequest.Finish()))
        self._reader.join(60)
        assert not self._reader.is_alive()
        self._steps.put(None)
        assert self._call.code() == grpc.StatusCode.OK

    def _read(self) -> None:
        # The end of the call is checked in `close`.
        with suppress(grpc.RpcError):
            for event in self._call:
                self._received.put(event.batch)


def test_members_through_every_api(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """Each message is given to one of them; when one leaves the others go on where it was."""
    create_group(root, stream)
    by_http = HttpMember(at(HttpApi, place.here), stream)
    by_call = GrpcMember(at(GrpcApi, place.there), stream)
    by_connection = BinaryMember(at(BinaryApi, place.there), stream)
    until("three members", lambda: shares(root, stream) == [1, 1, 2])
    for partition in range(PARTITIONS_COUNT):
        root.send(stream, *(Sent(b"m") for _ in range(10)), partition=partition)
    given: list[tuple[int, int]] = []

    def take_all(count: int, *members: HttpMember | BinaryMember | GrpcMember) -> None:
        def taken() -> bool:
            for member in members:
                given.extend(member.take())
            return len(given) >= count

        until(f"{count} messages", taken)
        assert sorted(given) == [(partition, offset) for partition in range(4) for offset in range(count // 4)]

    take_all(40, by_http, by_connection, by_call)
    by_call.leave()
    until("two members", lambda: shares(root, stream) == [2, 2])
    for partition in range(PARTITIONS_COUNT):
        root.send(stream, *(Sent(b"m") for _ in range(5)), partition=partition)
    take_all(60, by_http, by_connection)
    by_http.leave()
    until("one member", lambda: shares(root, stream) == [4])
    for partition in range(PARTITIONS_COUNT):
        root.send(stream, *(Sent(b"m") for _ in range(5)), partition=partition)
    take_all(80, by_connection)
