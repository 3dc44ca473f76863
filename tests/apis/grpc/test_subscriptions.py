"""Subscriptions to messages and changes over gRPC (GW-6): no duplicates, no losses, no more messages than requested."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as Details

from headrace_proto.catalog.v1 import USER_STATUS_INACTIVE, GlobalPermissions, Permissions
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import StartServer
from tests.server_process import ServerProcess

Topic = dict[str, v1.Identifier]
SECONDS = 30
PARTITIONS = 3


def named(name: str) -> v1.Identifier:
    return v1.Identifier(name=name)


@pytest.fixture
def topic(root: GrpcCaller, stream: str) -> Topic:
    root.catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    settings = v1.TopicSettings(name="t")
    request = v1.CreateTopicRequest(stream=named(stream), settings=settings, partitions_count=PARTITIONS)
    root.catalog.CreateTopic(request)
    return {"stream": named(stream), "topic": named("t")}


def send(root: GrpcCaller, topic: Topic, partition: int, *payloads: bytes) -> None:
    to = v1.Partitioning(partition_id=partition)
    messages = [v1.NewMessage(payload=payload) for payload in payloads]
    root.messages.Produce(v1.ProduceRequest(**topic, partitioning=to, messages=messages))


class Consuming:
    """One consuming call."""

    def __init__(self, caller: GrpcCaller, subscribe: v1.Subscribe, *, seconds: float = SECONDS) -> None:
        self._requests: queue.Queue[v1.ConsumeRequest | None] = queue.Queue()
        self._requests.put(v1.ConsumeRequest(subscribe=subscribe))
        self.call = caller.subscriptions.Consume(iter(self._requests.get, None), timeout=seconds)

    def subscribed(self) -> list[int]:
        event = next(self.call)
        assert event.WhichOneof("event") == "subscribed"
        return list(event.subscribed.partition_ids)

    def batch(self) -> v1.Batch:
        event = next(self.call)
        assert event.WhichOneof("event") == "batch"
        return event.batch

    def payloads(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            found += [message.payload for message in self.batch().messages]
        return found

    def say(self, **step: object) -> None:
        self._requests.put(v1.ConsumeRequest(**step))

    def acknowledge(self, partition_id: int, offset: int) -> None:
        self.say(acknowledge=v1.Acknowledge(partition_id=partition_id, offset=offset))

    def close(self) -> None:
        self._requests.put(None)

    def finish(self) -> None:
        self.say(finish=v1.ConsumeRequest.Finish())
        assert list(self.call) == []

    def refusal(self) -> tuple[grpc.StatusCode, int]:
        with pytest.raises(grpc.RpcError) as raised:
            list(self.call)
        return status_of(raised.value)


@pytest.fixture
def consume(root: GrpcCaller) -> Iterator[Callable[..., Consuming]]:
    made: list[Consuming] = []

    def begin(topic: Topic, *, caller: GrpcCaller = root, **subscribe: object) -> Consuming:
        made.append(Consuming(caller, v1.Subscribe(**topic, **subscribe)))
        return made[-1]

    yield begin
    for consuming in made:
        consuming.call.cancel()
        consuming.close()


FIRST = v1.Start(first=v1.Start.First())
END = v1.Start(end=v1.Start.End())


def test_what_is_there_and_what_comes(root: GrpcCaller, topic: Topic, consume) -> None:
    for partition in range(PARTITIONS):
        send(root, topic, partition, b"%d: old" % partition)
    consuming = consume(topic, start=FIRST)
    assert consuming.subscribed() == [0, 1, 2]
    assert sorted(consuming.payloads(3)) == [b"0: old", b"1: old", b"2: old"]
    for number in range(50):
        send(root, topic, number % PARTITIONS, b"%d" % number)
    found = consuming.payloads(50)
    assert sorted(found, key=int) == [b"%d" % number for number in range(50)], "each once"
    for partition in range(PARTITIONS):
        mine = [int(payload) for payload in found if int(payload) % PARTITIONS == partition]
        assert mine == sorted(mine)


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (FIRST, [0, 1, 2, 3, 4, 5, 6, 7]),
        (v1.Start(offset=2), [2, 3, 4, 5, 6, 7]),
        (v1.Start(last=v1.Start.Last()), [3, 4, 5, 6, 7]),
        (v1.Start(stored=v1.Start.Stored()), [2, 3, 4, 5, 6, 7]),
        (v1.Start(timestamp_micros=1), [0, 1, 2, 3, 4, 5, 6, 7]),
        (v1.Start(timestamp_micros=2**62), []),
        (v1.Start(offset=7), [7]),
        (END, [6, 7]),
        (None, [2, 3, 4, 5, 6, 7]),
    ],
)
def test_where_it_begins(root: GrpcCaller, topic: Topic, consume, start: v1.Start | None, found: list[int]) -> None:
    send(root, topic, 0, *(b"%d" % number for number in range(6)))
    reader = v1.Consumer(consumer=v1.Identifier(id=7))
    root.messages.StoreOffset(v1.StoreOffsetRequest(**topic, partition_id=0, consumer=reader, offset=1))
    consuming = consume(topic, partition_ids=[0, 0], start=start, consumer=reader, batch_count=3)
    assert consuming.subscribed() == [0]
    send(root, topic, 0, b"6", b"7")
    expected = [b"%d" % number for number in found]
    assert consuming.payloads(len(expected)) == expected
    consuming.finish()


def test_offsets_for_single_partitions(root: GrpcCaller, topic: Topic, consume) -> None:
    """A consumer resumes from offsets that it has stored itself."""
    for partition in range(PARTITIONS):
        send(root, topic, partition, *(b"%d %d" % (partition, number) for number in range(3)))
    consuming = consume(topic, start=END, offsets={0: 2, 1: 3})
    consuming.subscribed()
    send(root, topic, 2, b"2 3")
    assert sorted(consuming.payloads(2)) == [b"0 2", b"2 3"]


def test_credit(root: GrpcCaller, topic: Topic, consume) -> None:
    """The server sends no message beyond the granted credit, even if messages are available."""
    send(root, topic, 0, *(b"%d" % number for number in range(100)))
    consuming = consume(topic, start=FIRST, partition_ids=[0], credit=v1.Credit(messages=7))
    consuming.subscribed()
    assert len(consuming.payloads(7)) == 7
    consuming.say(credit=v1.Credit(messages=5))
    assert consuming.payloads(5) == [b"%d" % number for number in range(7, 12)]
    consuming.finish()


def test_who_has_closed_his_side_is_at_the_end_with_the_credit(root: GrpcCaller, topic: Topic, consume) -> None:
    send(root, topic, 0, *([b"x" * 1000] * 100))
    consuming = consume(topic, start=FIRST, partition_ids=[0], batch_count=2, credit=v1.Credit(bytes=5000))
    consuming.close()
    consuming.subscribed()
    assert sum(len(event.batch.messages) for event in consuming.call) == 6, "one response goes beyond"


def test_acknowledged_and_stored(root: GrpcCaller, topic: Topic, consume) -> None:
    send(root, topic, 1, b"a", b"b", b"c")
    reader = v1.Consumer(consumer=named("reader"))
    consuming = consume(topic, consumer=reader)
    consuming.subscribed()
    assert consuming.payloads(3) == [b"a", b"b", b"c"]
    consuming.acknowledge(1, 0)
    consuming.acknowledge(1, 1)
    consuming.finish()
    again = consume(topic, consumer=reader, auto_commit=True)
    again.subscribed()
    assert again.payloads(1) == [b"c"], "what was acknowledged does not come again"
    again.finish()
    where = v1.GetOffsetRequest(**topic, partition_id=1, consumer=reader)
    assert root.messages.GetOffset(where).stored_offset == 2, "stored because it was sent"


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ([{"acknowledge": v1.Acknowledge(partition_id=2, offset=0)}], Status.INVALID_COMMAND),
        ([{"acknowledge": v1.Acknowledge(partition_id=0, offset=99)}], Status.INVALID_OFFSET),
        ([{"subscribe": v1.Subscribe()}], Status.INVALID_COMMAND),
        ([{}], Status.INVALID_COMMAND),
    ],
)
def test_what_cannot_be_said(root: GrpcCaller, topic: Topic, consume, steps: list[dict], status: int) -> None:
    send(root, topic, 0, b"x")
    consuming = consume(topic, start=FIRST)
    consuming.subscribed()
    consuming.payloads(1)
    for step in steps:
        consuming.say(**step)
    assert consuming.refusal() == (grpc.StatusCode.INVALID_ARGUMENT, status)


def test_subscriptions_that_are_refused(root: GrpcCaller, topic: Topic, consume) -> None:
    group = v1.Consumer(group=named("none"))
    for subscribe, status in (
        ({"partition_ids": [0, 9]}, Status.PARTITION_NOT_FOUND),
        ({"consumer": group}, Status.CONSUMER_GROUP_ID_NOT_FOUND),
        ({"consumer": group, "start": FIRST}, Status.INVALID_COMMAND),
        ({"consumer": group, "partition_ids": [0]}, Status.INVALID_COMMAND),
    ):
        assert consume(topic, **subscribe).refusal()[1] == status
    assert consume(topic | {"stream": named("none")}, partition_ids=[0]).refusal() == (
        grpc.StatusCode.NOT_FOUND,
        Status.STREAM_ID_NOT_FOUND,
    )
    nothing = root.subscriptions.Consume(iter([]), timeout=SECONDS)
    with pytest.raises(grpc.RpcError) as raised:
        next(nothing)
    assert status_of(raised.value)[0] == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as raised:
        next(root.subscriptions.Watch(v1.WatchRequest(), timeout=SECONDS))
    assert status_of(raised.value)[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_large_messages_come_one_by_one(root: GrpcCaller, topic: Topic, consume) -> None:
    """A caller with the usual limit of 4 MiB can read every message that fits the limit by itself."""
    sizes = [10, 700_000, 700_000, 3_000_000, 10, 10]
    send(root, topic, 0, *(bytes([65 + number]) * size for number, size in enumerate(sizes)))
    assert root.token is not None
    with grpc.insecure_channel("ipv4:" + root.address) as channel:
        call = channel.stream_stream(
            "/headrace.gateway.v1.Subscriptions/Consume",
            request_serializer=v1.ConsumeRequest.SerializeToString,
            response_deserializer=v1.ConsumeResponse.FromString,
        )
        subscribe = v1.ConsumeRequest(subscribe=v1.Subscribe(**topic, start=FIRST, credit=v1.Credit(messages=6)))
        metadata = (("authorization", f"Bearer {root.token}"),)
        batches = [event.batch for event in call(iter([subscribe]), metadata=metadata, timeout=SECONDS)]
    assert [len(message.payload) for batch in batches for message in batch.messages] == sizes


def test_a_caller_who_does_not_read_is_not_read_for(root: GrpcCaller, topic: Topic, consume) -> None:
    """The flow control of HTTP/2 reaches the log: the stored offset, which follows sent messages, stays far behind the
    end.
    """
    for _ in range(4):
        send(root, topic, 0, *([b"x" * 10_000] * 500))
    reader = v1.Consumer(consumer=named("slow"))
    consuming = consume(topic, start=FIRST, partition_ids=[0], consumer=reader, auto_commit=True)
    consuming.subscribed()
    where = v1.GetOffsetRequest(**topic, partition_id=0, consumer=reader)
    stored = [-2, -1]

    def has_stopped() -> bool:
        threading.Event().wait(0.3)
        try:
            stored.append(root.messages.GetOffset(where).stored_offset)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND, "nothing was sent yet"  # noqa: PT017 - told by the code
        return stored[-1] == stored[-2]

    eventually("an end for now", has_stopped, timeout_seconds=SECONDS)
    assert stored[-1] < 1900
    assert len(consuming.payloads(2000)) == 2000


def test_a_purge_begins_anew(root: GrpcCaller, topic: Topic, consume) -> None:
    send(root, topic, 0, b"a", b"b")
    consuming = consume(topic, start=FIRST)
    consuming.subscribed()
    assert consuming.payloads(2) == [b"a", b"b"]
    root.catalog.PurgeTopic(v1.PurgeTopicRequest(**topic))
    send(root, topic, 0, b"c")
    batch = consuming.batch()
    assert (batch.messages[0].offset, batch.messages[0].payload) == (0, b"c")


def test_a_deleted_topic_ends_it(root: GrpcCaller, topic: Topic, consume) -> None:
    """The error has the gRPC code, the status, and the same in the details that libraries read."""
    reading = consume(topic, start=FIRST)
    reading.subscribed()
    root.catalog.CreateConsumerGroup(v1.CreateConsumerGroupRequest(**topic, name="g"))
    member = consume(topic, consumer=v1.Consumer(group=named("g")))
    member.subscribed()
    watching = root.subscriptions.Watch(v1.WatchRequest(topics=[v1.WatchedTopic(**topic)]), timeout=SECONDS)
    next(watching)
    root.catalog.DeleteTopic(v1.DeleteTopicRequest(**topic))
    with pytest.raises(grpc.RpcError) as raised:
        list(reading.call)
    assert status_of(raised.value) == (grpc.StatusCode.NOT_FOUND, Status.TOPIC_ID_NOT_FOUND)
    info = ErrorInfo()
    details = Details.FromString(dict(raised.value.trailing_metadata())["grpc-status-details-bin"])
    assert details.details[0].Unpack(info)
    assert (info.reason, info.metadata["status"]) == ("TopicIdNotFound", str(int(Status.TOPIC_ID_NOT_FOUND)))
    assert member.refusal()[0] == grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as raised:
        list(watching)
    assert status_of(raised.value) == (grpc.StatusCode.NOT_FOUND, Status.TOPIC_ID_NOT_FOUND)


@contextmanager
def reader_named(server: ServerProcess, root: GrpcCaller, name: str) -> Iterator[GrpcCaller]:
    granted = Permissions(**{"global": GlobalPermissions(read_topics=True)})
    root.accounts.CreateUser(v1.CreateUserRequest(username=name, password="secret", permissions=granted))
    with RawConnection.as_user(server.address, name, "secret") as connection:
        token = access_token(connection)
    with GrpcCaller(server.grpc_address, token) as caller:
        yield caller


@pytest.mark.parametrize("loss", ["rights", "user", "inactive", "token"])
def test_lost_rights_end_it(shared_server: ServerProcess, root: GrpcCaller, topic: Topic, consume, loss: str) -> None:
    """A revoked right ends reading and watching at once, without waiting for the next message (CTL-9)."""
    name = f"loses-{loss}"
    with reader_named(shared_server, root, name) as caller:
        reading = consume(topic, caller=caller, start=FIRST)
        reading.subscribed()
        watching = caller.subscriptions.Watch(v1.WatchRequest(topics=[v1.WatchedTopic(**topic)]), timeout=SECONDS)
        next(watching)
        user = named(name)
        match loss:
            case "rights":
                root.accounts.UpdatePermissions(v1.UpdatePermissionsRequest(user=user))
            case "user":
                root.accounts.DeleteUser(v1.DeleteUserRequest(user=user))
            case "inactive":
                root.accounts.UpdateUser(v1.UpdateUserRequest(user=user, status=USER_STATUS_INACTIVE))
            case "token":
                caller.accounts.DeleteAccessToken(v1.DeleteAccessTokenRequest(name="grpc"))
        expected = grpc.StatusCode.UNAUTHENTICATED
        if loss in {"rights", "inactive"}:
            expected = grpc.StatusCode.PERMISSION_DENIED
        assert reading.refusal()[0] == expected
        with pytest.raises(grpc.RpcError) as raised:
            list(watching)
        assert status_of(raised.value)[0] == expected


def group_of(root: GrpcCaller, topic: Topic) -> v1.Consumer:
    root.catalog.CreateConsumerGroup(v1.CreateConsumerGroupRequest(**topic, name="g"))
    return v1.Consumer(group=named("g"))


def members_of(root: GrpcCaller, topic: Topic) -> int:
    return root.catalog.GetConsumerGroup(v1.GetConsumerGroupRequest(**topic, group=named("g"))).group.members_count


def test_a_member_of_a_group(root: GrpcCaller, topic: Topic, consume) -> None:
    """A member gets the next batch after it acknowledges the previous one; unacknowledged messages go to the next
    member.
    """
    group = group_of(root, topic)
    member = consume(topic, consumer=group, batch_count=2)
    assert member.subscribed() == []
    assert members_of(root, topic) == 1
    send(root, topic, 0, b"a", b"b", b"c")
    first = member.batch()
    assert [message.payload for message in first.messages] == [b"a", b"b"]
    member.acknowledge(0, 1)
    assert member.payloads(1) == [b"c"]
    member.finish()
    assert members_of(root, topic) == 0
    after = consume(topic, consumer=group, auto_commit=True)
    after.subscribed()
    assert after.payloads(1) == [b"c"], "it was not acknowledged"
    send(root, topic, 2, *([b"x" * 600_000] * 4))
    assert len(after.payloads(4)) == 4, "more than a batch is sent in parts"
    after.finish()
    where = v1.GetOffsetRequest(**topic, partition_id=2, consumer=group)
    assert root.messages.GetOffset(where).stored_offset == 3


def test_members_share(root: GrpcCaller, topic: Topic, consume) -> None:
    group = group_of(root, topic)
    members = [consume(topic, consumer=group, auto_commit=True) for _ in range(PARTITIONS)]
    for member in members:
        member.subscribed()
    request = v1.GetConsumerGroupRequest(**topic, group=named("g"))

    def shares() -> list[int]:
        return [len(member.partition_ids) for member in root.catalog.GetConsumerGroup(request).members]

    eventually("a partition each", lambda: shares() == [1] * PARTITIONS)
    for partition in range(PARTITIONS):
        send(root, topic, partition, b"%d" % partition)
    assert sorted(member.payloads(1)[0] for member in members) == [b"0", b"1", b"2"]
    gone = members.pop()
    gone.call.cancel()
    # Until the member is removed, messages may be sent to it and stored as consumed.
    eventually("its end", lambda: members_of(root, topic) == PARTITIONS - 1)
    for partition in range(PARTITIONS):
        send(root, topic, partition, b"more")
    # The partition of the removed member is reassigned soon.
    found = sum(len(event.batch.messages) for event in _until(members, PARTITIONS))
    assert found == PARTITIONS


class Relay:
    """A proxy to a server that can go silent without closing, as when a machine loses power."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._server = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        self.is_silent = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server)
                self._sockets += (near, far)
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not self.is_silent.is_set():
                    target.sendall(data)

    def close(self) -> None:
        for one in self._sockets:
            one.close()


@pytest.mark.long
def test_a_member_whose_machine_has_gone_leaves(start_server: StartServer) -> None:
    # Longer than a pause of the member that stays.
    server = start_server({"GRPC_KEEPALIVE_INTERVAL": "8 s"})
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", "t", 1)
        token = access_token(connection)
    topic = {"stream": named("s"), "topic": named("t")}
    with (
        closing(Relay(server.grpc_address)) as relay,
        closing(Relay(server.grpc_address)) as gone,
        GrpcCaller(server.grpc_address, token) as root,
        GrpcCaller(relay.address, token) as here,
        GrpcCaller(gone.address, token) as far_away,
    ):
        group = group_of(root, topic)
        near, far = (
            Consuming(caller, v1.Subscribe(**topic, consumer=group), seconds=120) for caller in (here, far_away)
        )
        for member in (near, far):
            member.subscribed()
        gone.is_silent.set()
        eventually("its end", lambda: members_of(root, topic) == 1, timeout_seconds=60)
        # A client that answers pings stays, however long it has sent nothing else.
        send(root, topic, 0, b"m")
        assert near.payloads(1) == [b"m"]
        for member in (near, far):
            member.call.cancel()
            member.close()


def _until(members: list[Consuming], count: int) -> Iterator[v1.ConsumeResponse]:
    events: queue.Queue[v1.ConsumeResponse] = queue.Queue()

    def follow(member: Consuming) -> None:
        try:
            for event in member.call:
                events.put(event)
        except grpc.RpcError:
            pass

    for member in members:
        threading.Thread(target=follow, args=(member,), daemon=True).start()
    seen = 0
    while seen < count:
        event = events.get(timeout=SECONDS)
        seen += len(event.batch.messages)
        yield event


def test_watching(root: GrpcCaller, topic: Topic) -> None:
    """The end offsets of partitions are sent at once, and on every change."""
    watching = root.subscriptions.Watch(
        v1.WatchRequest(topics=[v1.WatchedTopic(**topic, partition_ids=[0]), v1.WatchedTopic(**topic)]),
        timeout=SECONDS,
    )
    ends: dict[int, v1.PartitionState] = {}

    def wait_for(condition: Callable[[], bool]) -> None:
        while not condition():
            ends.update({state.partition_id: state for state in next(watching).partitions})

    wait_for(lambda: len(ends) == PARTITIONS)
    assert {state.next_offset for state in ends.values()} == {0}
    send(root, topic, 1, b"a", b"b")
    wait_for(lambda: ends[1].next_offset == 2)
    epoch, incarnation = ends[1].purge_epoch, ends[1].incarnation
    root.catalog.PurgeTopic(v1.PurgeTopicRequest(**topic))
    wait_for(lambda: ends[1].purge_epoch == epoch + 1 and ends[1].next_offset == 0)
    assert ends[1].incarnation == incarnation
    root.catalog.DeletePartitions(v1.DeletePartitionsRequest(**topic, partitions_count=1))
    wait_for(lambda: ends[2].status != 0)
    assert (ends[2].status, ends[2].status_name) == (Status.PARTITION_NOT_FOUND, "PartitionNotFound")
    send(root, topic, 0, b"still watched")
    wait_for(lambda: ends[0].next_offset == 1)
    watching.cancel()


def test_calls_that_last_are_limited(start_server: StartServer) -> None:
    """Excess calls are refused, and ended calls make room."""
    server = start_server({"GRPC_MAX_STREAMS": "4"})
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", "t", 1)
        token = access_token(connection)
    topic = {"stream": named("s"), "topic": named("t")}
    with GrpcCaller(server.grpc_address, token) as caller:
        calls = [Consuming(caller, v1.Subscribe(**topic)) for _ in range(2)]
        for call in calls:
            call.subscribed()
        refused = Consuming(caller, v1.Subscribe(**topic))
        assert refused.refusal() == (grpc.StatusCode.UNAVAILABLE, Status.TOO_MANY_WAITS)
        with pytest.raises(grpc.RpcError) as raised:
            list(caller.messages.ProduceStream(iter([])))
        assert status_of(raised.value)[1] == Status.TOO_MANY_WAITS
        calls[0].finish()
        late = Consuming(caller, v1.Subscribe(**topic), seconds=0.5)
        with pytest.raises(grpc.RpcError) as raised:
            list(late.call)
        late.close()
        assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED

        def is_let_in() -> bool:
            calls.append(Consuming(caller, v1.Subscribe(**topic)))
            try:
                calls[-1].subscribed()
            except grpc.RpcError:
                calls.pop().close()
                return False
            return True

        # The call has ended for the server, too.
        eventually("a place", is_let_in)
        assert server.stop(timeout_seconds=20) == 0
        for call in calls[1:]:
            assert call.refusal() == (grpc.StatusCode.UNAVAILABLE, Status.DISCONNECTED)
        for call in (*calls, refused):
            call.close()
