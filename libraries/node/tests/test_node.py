"""The bridge between a native node and asyncio, with a fake native side."""

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from headrace_chassis.errors import StartRefused
from headrace_node import Node, Recovery
from headrace_proto.catalog.v1 import Snapshot, Update
from headrace_proto.control.v1 import LoginWithPassword, Reply, Request
from headrace_proto.errors import Status


class StandIn:
    """A fake native node: an eventfd, requests from another thread, a stop that waits for replies."""

    def __init__(self, *, fails: bool = False) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        self.waiting: list[tuple[int, bytes]] = []
        self.replies: dict[int, Reply] = {}
        self.published: list[bytes] = []
        self.answered = threading.Condition()
        self.fails = fails
        self.takes = 0
        self.recovering = 3
        self.listening = False
        self.stop_waits_for: set[int] = set()

    def start(self) -> dict[str, str]:
        if self.fails:
            raise OSError("127.0.0.1:8090: address in use")
        return {
            "tcp_address": "127.0.0.1:1234",
            "websocket_address": "127.0.0.1:1235",
            "driver": "uring",
            "driver_reason": "",
            "shards": "2",
        }

    def recovery(self) -> tuple[int, int]:
        self.recovering -= 1
        return 3, self.recovering

    def failures(self) -> list[tuple[str, str]]:
        return [("0/0/1", "a damaged manifest")]

    def contacts(self) -> list[tuple[int, int, bool]]:
        return []

    def listen(self) -> None:
        assert self.recovering == 0
        self.listening = True

    def fileno(self) -> int:
        return self.descriptor

    def push(self, *requests: tuple[int, Request]) -> None:
        self.waiting += [(number, request.SerializeToString()) for number, request in requests]
        os.eventfd_write(self.descriptor, 1)

    def take_requests(self) -> list[tuple[int, bytes]]:
        self.takes += 1
        os.eventfd_read(self.descriptor)
        taken, self.waiting = self.waiting, []
        return taken

    def reply(self, request_id: int, reply: bytes) -> None:
        with self.answered:
            self.replies[request_id] = Reply.FromString(reply)
            self.answered.notify_all()

    def publish_snapshot(self, snapshot: bytes) -> int:
        self.published.append(snapshot)
        return len(self.published)

    def publish_update(self, update: bytes) -> int:
        self.published.append(update)
        return len(self.published)

    def stats_json(self) -> str:
        return '{"shards": 1}'

    def stop(self, timeout_seconds: float) -> bool:
        with self.answered:
            return self.answered.wait_for(lambda: self.stop_waits_for <= self.replies.keys(), timeout_seconds)


@pytest.fixture
def native() -> Iterator[StandIn]:
    stand_in = StandIn()
    yield stand_in
    os.close(stand_in.descriptor)


async def echo(request: Request) -> Reply:
    return Reply(status=0, user_id=request.client_id)


async def answers(native: StandIn, *request_ids: int) -> list[Reply]:
    async with asyncio.timeout(30):
        while not native.replies.keys() >= set(request_ids):
            await asyncio.sleep(0.001)
    return [native.replies[request_id] for request_id in request_ids]


async def test_requests_that_wait_together_are_taken_together(native: StandIn) -> None:
    async with Node(native, echo) as node:
        assert (node.tcp_address, node.websocket_address) == ("127.0.0.1:1234", "127.0.0.1:1235")
        assert (node.driver, node.shards_count) == ("uring", 2)
        assert node.failures() == [("0/0/1", "a damaged manifest")]
        assert node.statistics() == {"shards": 1, "driver": "uring", "driver_reason": node.driver_reason}
        native.push(*((number, Request(client_id=number)) for number in range(100)))
        replies = await answers(native, *range(100))
    assert [reply.user_id for reply in replies] == list(range(100))
    assert native.takes == 1


async def test_no_client_connects_before_the_partitions_have_recovered(native: StandIn) -> None:
    seen: list[Recovery] = []
    async with Node(native, echo) as node:
        assert not native.listening
        await node.listen(seen.append)
    assert native.listening
    assert seen == [Recovery(3, 2), Recovery(3, 1), Recovery(3, 0)]


async def test_a_slow_request_does_not_hold_up_others(native: StandIn) -> None:
    release = asyncio.Event()

    async def handle(request: Request) -> Reply:
        if request.client_id == 1:
            await release.wait()
        return Reply(status=0)

    async with Node(native, handle):
        native.push((1, Request(client_id=1)))
        native.push((2, Request(client_id=2)))
        await answers(native, 2)
        assert 1 not in native.replies
        release.set()
        await answers(native, 1)


async def test_a_failing_request_is_answered_and_logged_without_its_contents(native: StandIn, caplog) -> None:
    async def handle(request: Request) -> Reply:
        raise KeyError("no such thing")

    login = LoginWithPassword(username="root", password=b"correct horse")
    async with Node(native, handle):
        native.push((7, Request(login_with_password=login)))
        (reply,) = await answers(native, 7)
    assert reply.status == Status.ERROR
    assert "control request 7 failed" in caplog.text
    assert "correct horse" not in caplog.text


async def test_stopping_answers_what_is_in_flight(native: StandIn) -> None:
    async def handle(request: Request) -> Reply:
        await asyncio.sleep(0.05)
        return Reply(status=0, user_id=5)

    native.stop_waits_for = {1}
    async with Node(native, handle):
        native.push((1, Request()))
    assert native.replies[1].user_id == 5


async def test_a_request_that_never_ends_is_given_up_at_the_end(native: StandIn) -> None:
    async def handle(request: Request) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    native.stop_waits_for = {1}
    async with Node(native, handle, stop_timeout_seconds=0.1):
        native.push((1, Request()))
        await asyncio.sleep(0.01)
    assert native.replies[1].status == Status.ERROR


async def test_the_catalog_goes_through_as_bytes(native: StandIn) -> None:
    node = Node(native, echo)
    node.publish_snapshot(Snapshot(version=3))
    node.publish_update(Update(version=4))
    assert native.published == [
        Snapshot(version=3).SerializeToString(),
        Update(version=4).SerializeToString(),
    ]


async def test_a_refused_start_says_why() -> None:
    with pytest.raises(StartRefused, match="address in use"):
        async with Node(StandIn(fails=True), echo):
            pass
