"""Quotas of users and topics over all client protocols (CTL-13)."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import grpc
import pytest

from headrace_embedded import data_directory
from headrace_embedded.config import load_config
from headrace_embedded.server import native_replica
from headrace_metadata.replica import Replica
from headrace_proto.catalog.v1 import Quota
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.metadata.v1 import Command, SetTopicQuota, SetUserQuota
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.apis.http.api import b64
from tests.attacks.background_latency import bystanders
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import ended_well
from tests.server_process import ServerProcess

RATE = 2 << 20
HELD_BYTES = 1 << 20
PAYLOAD = bytes(64 << 10)
SECONDS = 4.0
PATH = "/streams/quotas/topics/{}/messages"
RIGHTS = ("poll_messages", "send_messages")


async def _set(path: Path, commands: list[Command]) -> None:
    with data_directory.opened(str(path)) as opened:
        async with await Replica.open(native_replica(load_config(None, {}).config, opened)) as replica:
            await replica.wait_recovered()
            for command in commands:
                assert (await replica.propose(command)).status == Status.OK


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a user, and with topics, that have quotas."""
    server = ServerProcess(tmp_path_factory.mktemp("limited") / "data", {"SYSTEM_SHARDING_CPU_ALLOCATION": "2"})
    with server:
        with RawConnection.as_root(server.address) as root:
            root.create_topic("quotas")
            for topic in ("slow", "full"):
                root.ok(Code.CREATE_TOPIC, frames.create_topic("quotas", topic, 2))
            # More than a user reads at its rate in one test.
            for _ in range(32):
                root.send("quotas", "t", 0, *[PAYLOAD] * 10)
            root.ok(Code.CREATE_USER, frames.create_user("limited", "password", frames.permissions(RIGHTS)))
        server.stop()
        rates = Quota(sent_bytes_per_second=RATE, read_bytes_per_second=RATE)
        commands = [
            Command(set_user_quota=SetUserQuota(user_id=1, quota=rates)),
            Command(set_topic_quota=SetTopicQuota(stream_id=0, topic_id=1, quota=rates)),
            Command(set_topic_quota=SetTopicQuota(stream_id=0, topic_id=2, quota=Quota(held_bytes=HELD_BYTES))),
        ]
        asyncio.run(_set(server.data, commands))
        server.start()
        yield server
    ended_well(server)


Use = Callable[[], int]
"""Sends or reads once; returns the size of the payloads."""


@contextmanager
def tcp(server: ServerProcess, topic: str = "t") -> Iterator[dict[str, Use]]:
    """The user over TCP."""
    with RawConnection.as_user(server.address, "limited", "password") as connection:

        def send() -> int:
            connection.send("quotas", topic, 0, PAYLOAD)
            return len(PAYLOAD)

        def read() -> int:
            polled = connection.poll("quotas", topic, 0, Strategy.FIRST, count=2)
            return sum(len(message.payload) for message in polled.messages)

        yield {"send": send, "read": read}


@contextmanager
def over_http(server: ServerProcess, topic: str = "t") -> Iterator[dict[str, Use]]:
    """The user over HTTP."""
    path = PATH.format(topic)
    host, _, port = server.http_address.rpartition(":")
    message = {"partitioning": {"kind": "partition_id", "value": "AAAAAA=="}, "messages": [{"payload": b64(PAYLOAD)}]}
    encoded = json.dumps(message)
    with closing(http.client.HTTPConnection(host, int(port), 20)) as connection:

        def ask(method: str, path: str, body: str | None = None) -> bytes:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            assert 200 <= answer.status < 300, content
            return content

        headers = {"Content-Type": "application/json"}
        login = json.loads(ask("POST", "/users/login", json.dumps({"username": "limited", "password": "password"})))
        headers["Authorization"] = f"Bearer {login['access_token']['token']}"

        def send() -> int:
            ask("POST", path, encoded)
            return len(PAYLOAD)

        def read() -> int:
            polled = json.loads(ask("GET", f"{path}?partition_id=0&kind=first&count=2"))
            return sum(len(base64.b64decode(message["payload"])) for message in polled["messages"])

        yield {"send": send, "read": read}


@contextmanager
def over_grpc(server: ServerProcess, topic: str = "t") -> Iterator[dict[str, Use]]:
    """The user over gRPC: single calls, and a stream of what there is."""
    place = {"stream": v1.Identifier(name="quotas"), "topic": v1.Identifier(name=topic)}
    first = v1.Start(first=v1.Start.First())
    with RawConnection.as_user(server.address, "limited", "password") as connection:
        token = access_token(connection, f"token-{time.monotonic_ns()}")
    with GrpcCaller(server.grpc_address, token) as caller, ExitStack() as stack:

        def send() -> int:
            request = v1.ProduceRequest(
                **place, partitioning=v1.Partitioning(partition_id=0), messages=[v1.NewMessage(payload=PAYLOAD)]
            )
            caller.messages.Produce(request, timeout=20)
            return len(PAYLOAD)

        def read() -> int:
            polled = caller.messages.Poll(v1.PollRequest(**place, partition_id=0, start=first, count=2), timeout=20)
            return sum(len(message.payload) for message in polled.messages)

        batches: Iterator[v1.ConsumeResponse] = iter(())

        def consume() -> int:
            nonlocal batches
            while True:
                for response in batches:
                    if response.WhichOneof("event") == "batch":
                        return sum(len(message.payload) for message in response.batch.messages)
                over = threading.Event()
                stack.callback(over.set)
                batches = caller.subscriptions.Consume(subscription(over), timeout=60)

        def subscription(over: threading.Event) -> Iterator[v1.ConsumeRequest]:
            yield v1.ConsumeRequest(subscribe=v1.Subscribe(**place, partition_ids=[0], start=first))
            over.wait()

        yield {"send": send, "read": read, "consume": consume}


def rate_of(use: Use) -> float:
    """Use up the burst, then return the bytes per second of what follows."""
    used = 0
    while used <= 2 * RATE:
        used += use()
    began, used = time.monotonic(), 0
    while time.monotonic() - began < SECONDS:
        used += use()
    return used / (time.monotonic() - began)


@pytest.mark.long(but=1)
@pytest.mark.parametrize("kind", ["send", "read"])
@pytest.mark.parametrize("protocol", [tcp, over_http, over_grpc])
def test_a_user_has_its_rate(
    limited: ServerProcess, show: list[str], protocol: Callable[..., object], kind: str
) -> None:
    """A user who does as much as it can gets its rate, and another one is answered as fast as ever."""
    with bystanders(limited, show), protocol(limited) as uses:
        rate = rate_of(uses[kind])
    show.append(f"{rate / RATE:.3f} of the rate")
    assert 0.8 < rate / RATE < 1.2


@pytest.mark.long
def test_a_stream_of_messages_has_the_rate_of_its_user(limited: ServerProcess, show: list[str]) -> None:
    with over_grpc(limited) as uses:
        rate = rate_of(uses["consume"])
    show.append(f"{rate / RATE:.3f} of the rate")
    assert 0.8 < rate / RATE < 1.2


@pytest.mark.long
def test_all_users_of_a_topic_share_its_rate(limited: ServerProcess, show: list[str]) -> None:
    """Root has no quota, and shares that of the topic with others, on all protocols together."""
    counts = [0, 0, 0]

    def repeat(index: int, use: Use, over: threading.Event) -> None:
        while not over.is_set():
            counts[index] += use()

    over = threading.Event()
    with ExitStack() as stack:
        root = stack.enter_context(RawConnection.as_root(limited.address))

        def send() -> int:
            root.send("quotas", "slow", 1, PAYLOAD)
            return len(PAYLOAD)

        web = stack.enter_context(over_http(limited, "slow"))
        caller = stack.enter_context(over_grpc(limited, "slow"))
        uses = [send, web["send"], caller["send"]]
        threads = [threading.Thread(target=repeat, args=(index, use, over)) for index, use in enumerate(uses)]
        for thread in threads:
            thread.start()
        while sum(counts) <= 2 * RATE:
            time.sleep(0.01)
        began, before = time.monotonic(), sum(counts)
        time.sleep(SECONDS)
        rate = (sum(counts) - before) / (time.monotonic() - began)
        over.set()
        for thread in threads:
            thread.join()
    show.append(f"{rate / RATE:.3f} of the rate; {counts}")
    assert 0.8 < rate / RATE < 1.2
    assert min(counts) > 0


def test_a_full_topic_says_so(limited: ServerProcess) -> None:
    with RawConnection.as_root(limited.address) as root:
        refused = []
        for partition in [0, 1] * (HELD_BYTES // len(PAYLOAD)):
            payload = frames.send("quotas", "full", frames.to_partition(partition), [frames.message(PAYLOAD)])
            refused.append(root.status(Code.SEND_MESSAGES, payload))
        taken = HELD_BYTES // len(PAYLOAD)
        assert refused == [Status.OK] * taken + [Status.TOPIC_FULL] * taken
        token = access_token(root, "full")
    with GrpcCaller(limited.grpc_address, token) as caller:
        request = v1.ProduceRequest(
            stream=v1.Identifier(name="quotas"),
            topic=v1.Identifier(name="full"),
            partitioning=v1.Partitioning(partition_id=0),
            messages=[v1.NewMessage(payload=b"x")],
        )
        with pytest.raises(grpc.RpcError) as refusal:
            caller.messages.Produce(request, timeout=20)
        assert status_of(refusal.value)[1] == Status.TOPIC_FULL


def test_delays_are_counted(limited: ServerProcess) -> None:
    host, _, port = limited.http_address.rpartition(":")
    with tcp(limited) as uses:
        used = 0
        while used <= 2 * RATE:
            used += uses["send"]()
    with closing(http.client.HTTPConnection(host, int(port), 20)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    seconds = [line for line in lines if line.startswith("headrace_quota_delayed_seconds_total")]
    assert float(seconds[0].split()[1]) > 0
    assert "the quota of user limited delays requests" in limited.log.read_text()
