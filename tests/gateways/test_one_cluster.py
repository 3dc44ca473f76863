"""Several gateways act as one server to their clients (GW-8, CTL-9)."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from grpc import aio

from headrace_core import TicketKey
from headrace_proto.cluster_token import authorization, metrics_authorization
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.pipelines_pb2_grpc import PipelinesStub
from headrace_proto.partition.v1 import GetOffsetsRequest
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.apis.grpc.writer import GrpcWriter
from tests.apis.http.api import Api, batch, payloads
from tests.cluster import NAME, Cluster, GatewayProcess
from tests.compatibility.groups.member import Group
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, Reply, eventually
from tests.gateways.test_lifecycle import join_at

SECONDS = 60.0
PARTITION_ELSEWHERE = 20201


async def until(what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a change that reaches every gateway eventually."""
    end = time.monotonic() + SECONDS
    while not await condition():
        assert time.monotonic() < end, f"{what} did not happen"
        await asyncio.sleep(0.01)


async def test_a_login_at_one_gateway_is_good_at_all_until_it_is_taken_back(roots: list[Api]) -> None:
    here, there = roots
    user = await here.create_user("alice")
    for _ in range(2):
        # A new token is valid with the first request.
        elsewhere = Api(there.session, there.url, user.token)
        assert (await elsewhere("GET", "/users/alice")).status == 200
        user = await elsewhere.login("alice", "alice")
    # Now of the second gateway.
    assert (await user("DELETE", "/users/logout")).status == 204
    assert (await user("GET", "/users/alice")).status == 401, "at the gateway that was asked"

    async def is_over() -> bool:
        return (await Api(here.session, here.url, user.token)("GET", "/users/alice")).status == 401

    await until("the revocation", is_over)


async def test_a_login_is_exchanged_once_whichever_gateways_are_asked(apis: list[Api], roots: list[Api]) -> None:
    """Many times at both, at the same moment, before either can know of the other."""
    for _ in range(20):
        token = (await roots[0].login()).token
        answers = await asyncio.gather(
            *(api("POST", "/users/refresh-token", {"token": token}) for api in apis for _ in range(2))
        )
        assert sorted(answer.status for answer in answers) == [200, 401, 401, 401]


async def test_pipelines_learn_from_every_gateway_where_partitions_are(cluster: Cluster, roots: list[Api]) -> None:
    """One call for a whole stream returns the end offset and the node of each partition."""
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        root.create_topic("piped", partitions=8)
        for partition in range(8):
            for _ in range(partition):
                root.send("piped", "t", partition, b"m")
        shown = (("authorization", f"Bearer {access_token(root, 'pipelines')}"),)
    named = [v1.Identifier(name="t")]
    request = v1.DescribeTopicsRequest(stream=v1.Identifier(name="piped"), topics=named, with_sizes=True)
    placed = []
    for gateway in cluster.gateways:
        async with aio.insecure_channel(gateway.listeners.grpc) as channel:
            (topic,) = (await PipelinesStub(channel).DescribeTopics(request, metadata=shown, timeout=SECONDS)).topics
        assert [partition.next_offset for partition in topic.partitions] == list(range(8))
        assert [partition.size_bytes > 0 for partition in topic.partitions] == [False] + [True] * 7
        placed.append([partition.grpc_address for partition in topic.partitions])
    assert placed[0] == placed[1]
    assert set(placed[0]) == {node.grpc for node in cluster.nodes}
    ticket = TicketKey(cluster.secret, NAME).sign("a test", not_after=int(time.time()) + 60)
    for partition_id, address in enumerate(placed[0]):
        async with aio.insecure_channel(address) as channel:
            offsets = await PartitionStub(channel).GetOffsets(
                GetOffsetsRequest(stream_id=topic.stream_id, topic_id=topic.topic_id, partition_ids=[partition_id]),
                metadata=(("headrace-ticket", ticket),),
                timeout=SECONDS,
            )
        assert offsets.partitions[0].next_offset == partition_id


def test_the_place_of_a_batch_is_reported_across_nodes(cluster: Cluster) -> None:
    """Every gateway reports it for partitions of every node, and so do the nodes for holders of tickets."""
    here, there = (gateway.listeners.tcp for gateway in cluster.gateways)
    with RawConnection.as_root(here) as asks, RawConnection.as_root(there) as other:
        asks.create_topic("places", partitions=8)
        asks.ok(Code.REPORT_OFFSETS)
        eventually("the topic", lambda: other.ok(Code.GET_TOPIC, frames.ident("places") + frames.ident("t")))
        chosen = set()
        for number in range(16):
            messages = [frames.message(b"%d" % number), frames.message(b"m")]
            place = asks.ok(Code.SEND_MESSAGES, frames.send("places", "t", frames.BALANCED, messages))
            partition, offset = struct.unpack("<IQ", place)
            assert other.poll("places", "t", partition, Strategy.OFFSET, offset, 1).payloads == [b"%d" % number]
            other.send("places", "t", partition, b"of another")
            chosen.add(partition)
        assert chosen == set(range(8))
    ticket = TicketKey(cluster.secret, NAME).sign("a test", not_after=int(time.time()) + 60)
    request = frames.send("places", "t", frames.to_partition(0), [frames.message(b"m")])
    replies = []
    for node in cluster.nodes:
        with RawConnection(node.binary) as holder:
            holder.ok(Code.REPORT_OFFSETS)
            holder.ok(Code.LOGIN_WITH_TICKET, frames.str32(ticket))
            replies.append(holder.request(Code.SEND_MESSAGES, request))
    # Partition 0 has six messages, at one of the nodes.
    replies.sort(key=lambda reply: reply.status)
    assert replies == [Reply(Status.OK, frames.u32(0) + frames.u64(6)), Reply(PARTITION_ELSEWHERE)]


def test_members_at_several_gateways_learn_their_partitions(cluster: Cluster) -> None:
    one, other = cluster.gateways
    with RawConnection.as_root(one.listeners.tcp) as connection:
        group = Group(connection, "learned", partitions=4)
        with closing(group):
            group.send(3, b"m")
            here = group.join()
            assert here.membership() == (0, [(partition, False) for partition in range(4)])
            assert here.poll(3).offsets == [0]
            there = join_at(group, other.listeners.tcp)
            kept = [(0, False), (1, False)]
            eventually("what is not read moves", lambda: there.membership() == (1, [(2, False)]))
            eventually("what is read is leaving", lambda: here.membership() == (0, [*kept, (3, True)]))
            assert here.store(3, 0) == Status.OK
            eventually("it moves", lambda: there.membership() == (1, [(2, False), (3, False)]))
            eventually("it is gone", lambda: here.membership() == (0, kept))
            assert connection.status(Code.GET_MEMBERSHIP, group.path) == Status.GROUP_MEMBER_NOT_FOUND


async def test_a_batch_over_several_nodes_is_committed_once_whichever_gateway_is_asked(
    cluster: Cluster, roots: list[Api]
) -> None:
    """SPK-1: staged at the nodes, committed at one gateway, and known to be at the other."""
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        root.create_topic("once", partitions=8)
        token = access_token(root, "once")
    listeners = [gateway.listeners.grpc for gateway in cluster.gateways]
    with (
        GrpcCaller(listeners[0], token) as here,
        GrpcCaller(listeners[1], token) as there,
        GrpcWriter(here, "once") as writer,
    ):
        assert {partition.grpc_address for partition in writer.topic.partitions} == {
            node.grpc for node in cluster.nodes
        }
        stages = [writer.staged(partition, b"%d" % partition) for partition in range(8)]
        committed = writer.commit(1, *stages)
        assert not committed.was_committed
        writer.listener = there
        again = writer.commit(1, *stages)
        assert (again.was_committed, again.number) == (True, committed.number)
        last = writer.last()
        assert last is not None
        assert (last.query_id, last.batch_id) == ("query", 1)

        async def is_there() -> bool:
            return [writer.read(partition) for partition in range(8)] == [[b"%d" % number] for number in range(8)]

        await until("the publication", is_there)


async def test_a_change_of_a_user_ends_logins_at_the_other_gateway(roots: list[Api]) -> None:
    here, there = roots
    user = await here.create_user("bob")
    elsewhere = Api(there.session, there.url, user.token)
    assert (await elsewhere("GET", "/users/bob")).status == 200
    passwords = {"current_password": "bob", "new_password": "another"}
    await user.ok("PUT", "/users/bob/password", passwords)

    async def is_over() -> bool:
        return (await elsewhere("GET", "/users/bob")).status == 401

    await until("the end of the login", is_over)
    # Logins are checked against current data: the old password is refused at once.
    refused = await there("POST", "/users/login", {"username": "bob", "password": "bob"})
    assert (refused.status, refused.code) == (400, 42)
    again = await there.login("bob", "another")
    await here.ok("PUT", "/users/bob", {"status": "inactive"})
    refused = await there("POST", "/users/login", {"username": "bob", "password": "another"})
    assert (refused.status, refused.code) == (400, 47)

    async def is_inactive() -> bool:
        return (await again("GET", "/users/bob")).status == 401

    await until("the deactivation", is_inactive)


async def test_what_a_login_needs_is_known_wherever_it_comes(roots: list[Api]) -> None:
    """A user, or an access token, that was created a moment ago at the other gateway."""
    here, there = roots
    for number in range(10):
        name = f"user-{number}"
        await here.ok("POST", "/users", {"username": name, "password": name, "status": "active"})
        user = await there.login(name, name)
        assert (await user.ok("GET", f"/users/{name}"))["username"] == name
        token = (await user.ok("POST", "/personal-access-tokens", {"name": "mine"}))["token"]
        identity = await here.ok("POST", "/personal-access-tokens/login", {"token": token})
        again = Api(here.session, here.url, identity["access_token"]["token"])
        await again.ok("DELETE", "/personal-access-tokens/mine")
        assert (await again("GET", f"/users/{name}")).status == 401, "it was given for that token"
        refused = await there("POST", "/personal-access-tokens/login", {"token": token})
        assert refused.status == 404


async def test_the_author_of_a_change_sees_it_at_once(roots: list[Api]) -> None:
    here, _ = roots
    for number in range(20):
        name = f"seen-{number}"
        created = await here.ok("POST", "/streams", {"name": name})
        assert (await here.ok("GET", f"/streams/{name}"))["id"] == created["id"]
        await here.ok("DELETE", f"/streams/{name}")
        assert (await here("GET", f"/streams/{name}")).status == 404


async def test_every_gateway_reports_the_cluster(cluster: Cluster, roots: list[Api]) -> None:
    for root in roots:

        async def is_well(root: Api = root) -> bool:
            state = await root.ok("GET", "/cluster")
            assert (state["name"], state["kind"]) == (NAME, "gateway")
            assert len(state["nodes"]) == len(cluster.nodes)
            return (
                state["unready"] is None
                and {node["state"] for node in state["nodes"]} == {"live"}
                and sorted(replica["state"] for replica in state["replicas"]) == ["backup", "backup", "primary"]
                and all(replica["applied"] > 0 for replica in state["replicas"])
            )

        # A service that is paused is reported as such until it goes on.
        await until("all of it is well", is_well)


async def test_what_was_made_at_one_gateway_is_there_at_the_other(cluster: Cluster, roots: list[Api]) -> None:
    """New objects are visible to the first request of every API: a gateway that lags catches up before it refuses."""
    api = roots[1]
    addresses = [gateway.listeners.tcp for gateway in cluster.gateways]
    with RawConnection.as_root(addresses[0]) as here, RawConnection.as_root(addresses[1]) as there:
        token = access_token(here, "made")
        with GrpcCaller(cluster.gateways[1].listeners.grpc, token) as caller:
            for number in range(25):
                name = f"made-{number}"
                path = frames.ident(name) + frames.ident("t")
                here.create_topic(name)
                match number % 5:
                    case 0:
                        there.send(name, "t", 0, b"m")
                    case 1:
                        assert not there.poll(name, "t", 0, Strategy.FIRST).messages
                    case 2:
                        assert (await api("GET", f"/streams/{name}/topics/t")).status == 200
                    case 3:
                        topics = [v1.Identifier(name="t")]
                        request = v1.DescribeTopicsRequest(stream=v1.Identifier(name=name), topics=topics)
                        (topic,) = caller.pipelines.DescribeTopics(request, timeout=SECONDS).topics
                        assert topic.topic_name == "t"
                    case _:
                        assert there.ok(Code.GET_TOPIC, path)
                here.ok(Code.CREATE_CONSUMER_GROUP, path + frames.name("g"))
                there.ok(Code.JOIN_CONSUMER_GROUP, path + frames.ident("g"))
                here.ok(Code.CREATE_PARTITIONS, path + frames.u32(1))
                there.send(name, "t", 1, b"m")
            assert there.status(Code.JOIN_CONSUMER_GROUP, path + frames.ident("another")) == Status.GROUP_NOT_FOUND


def test_a_permission_counts_at_every_gateway(cluster: Cluster) -> None:
    """A permission is effective at every gateway as soon as it is granted."""
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        root.create_topic("granted")
        root.ok(Code.CREATE_USER, frames.create_user("grantee", "grantee"))
        with RawConnection.as_user(cluster.gateways[1].listeners.tcp, "grantee", "grantee") as connection:
            for _ in range(10):
                rights = frames.permissions(["poll_messages"])
                root.ok(Code.UPDATE_PERMISSIONS, frames.ident("grantee") + frames.opt_permissions(rights))
                assert not connection.poll("granted", "t", 0, Strategy.FIRST).messages
                root.ok(Code.UPDATE_PERMISSIONS, frames.ident("grantee") + frames.opt_permissions(None))


async def test_messages_are_the_same_at_every_gateway(cluster: Cluster, roots: list[Api]) -> None:
    here, there = roots
    topic = await here.create_topic("messages", partitions=4)
    addresses = [gateway.listeners.tcp for gateway in cluster.gateways]
    with RawConnection.as_root(addresses[0]) as one, RawConnection.as_root(addresses[1]) as other:
        for partition in range(4):
            one.send("messages", "t", partition, b"from one")
            other.send("messages", "t", partition, b"from the other")
            for connection in (one, other):
                polled = connection.poll("messages", "t", partition, Strategy.FIRST)
                assert [message.payload for message in polled.messages] == [b"from one", b"from the other"]
    await there.ok("POST", f"{topic}/messages", batch(b"over HTTP", partition=0))
    polled = await here.ok("GET", f"{topic}/messages?partition_id=0&kind=first")
    assert payloads(polled) == [b"from one", b"from the other", b"over HTTP"]

    async def is_counted() -> bool:
        return bool((await here.ok("GET", topic))["messages_count"] == 9)

    # Statistics of nodes that do not answer in time keep their last values.
    await until("all messages are counted", is_counted)


async def test_root_is_created_once(cluster: Cluster, roots: list[Api]) -> None:
    users = await roots[0].ok("GET", "/users")
    assert [user["username"] for user in users if user["id"] == 0] == ["iggy"]
    texts = [gateway.log_text() for gateway in cluster.gateways]
    assert sum(text.count("of the cluster was created") for text in texts) == 1


async def test_metrics_are_for_users_and_for_who_has_the_clusters_token(cluster: Cluster, apis: list[Api]) -> None:
    anonymous = apis[0]
    assert (await anonymous("GET", "/metrics")).status == 401
    shown = {"Authorization": metrics_authorization(cluster.secret, NAME)}
    metrics = await anonymous("GET", "/metrics", headers=shown)
    assert metrics.status == 200
    lines = metrics.body.decode().splitlines()
    assert "headrace_gateway_ready 1.0" in lines
    (version,) = (line.split()[1] for line in lines if line.startswith("headrace_gateway_catalog_version "))
    assert float(version) > 0
    assert (await anonymous("GET", "/streams", headers=shown)).status == 401, "and nothing else"
    assert (
        await anonymous("GET", "/metrics", headers={"Authorization": authorization(cluster.secret, NAME)})
    ).status == 401
    for path in ("/health", "/live"):
        assert (await anonymous("GET", path)).status == 200


async def test_a_gateway_holds_no_password_hashes(cluster: Cluster, roots: list[Api]) -> None:
    """Gateways hold no password hashes: they fetch one credential per login."""
    await roots[0].ok("POST", "/users", {"username": "carol", "password": "carol", "status": "active"})
    state = await asyncio.to_thread(cluster.state)
    carol = next(user.id for user in state.catalog.users if user.username == "carol")
    hashed = next(password.password_hash for password in state.passwords if password.user_id == carol)
    await roots[1].ok("GET", "/users/carol")
    memory = memory_of(cluster.gateways[1])
    assert b"carol" in memory
    assert hashed.encode() not in memory


def memory_of(gateway: GatewayProcess) -> bytes:
    """All private pages of a process."""
    process = Path(f"/proc/{gateway.process.pid}")
    held = bytearray()
    with (process / "mem").open("rb", buffering=0) as memory:
        for line in (process / "maps").read_text().splitlines():
            area, rights, _, _, inode, *_ = line.split()
            start, end = (int(text, 16) for text in area.split("-"))
            if rights.startswith("rw") and inode == "0" and end - start < 2**30:
                try:
                    memory.seek(start)
                    held += memory.read(end - start)
                except OSError:
                    # The page range was released meanwhile.
                    continue
    return bytes(held)
