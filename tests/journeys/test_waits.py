"""Waiting at one gateway for messages sent through another one (GW-4 to GW-7, GW-8)."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from headrace_proto.gateway import v1
from tests.compatibility.protocol import frames, long_poll
from tests.compatibility.protocol.codes import Code, Status
from tests.journeys.conftest import At
from tests.journeys.deployment.api_clients import SECONDS_MAX, BinaryApi, GrpcApi, HttpApi, PushApi, Sent
from tests.journeys.deployment.place import Place

HEAD_START_SECONDS = 0.15
"""Head start of the waiting requests; results do not depend on it."""


@pytest.fixture
def aside() -> Iterator[Callable[[Callable[[], object]], Future[object]]]:
    """Do something on another thread."""
    with ThreadPoolExecutor(16) as pool:
        yield pool.submit


def test_many_who_wait_at_both_gateways(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """Each of them gets the messages that come, and none waits for longer."""
    waiters = [at(BinaryApi, place.gateways[number % len(place.gateways)]) for number in range(12)]
    for number, waiter in enumerate(waiters):
        payload = long_poll.wait(stream, number % 4, seconds=50, who=frames.consumer(100 + number))
        long_poll.begin(waiter.connection, payload)
    time.sleep(HEAD_START_SECONDS)
    began = time.monotonic()
    for partition in range(4):
        root.send(stream, Sent(b"for %d" % partition), partition=partition)
    for number, waiter in enumerate(waiters):
        found = long_poll.answer(waiter.connection)
        assert (found.partition, found.payloads) == (number % 4, [b"for %d" % (number % 4)])
    assert time.monotonic() - began < 40, "they were notified when it came, not after the timeout"


def test_waits_that_end_without_messages(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """A wait ends on its timeout, or when its topic is deleted by any user."""
    waiter, doomed = at(BinaryApi, place.there), at(BinaryApi, place.there)
    long_poll.begin(doomed.connection, long_poll.wait(stream, 1, seconds=25))
    long_poll.begin(waiter.connection, long_poll.wait(stream, 2, seconds=0.3))
    assert long_poll.answer(waiter.connection).messages == ()
    root.connection.ok(Code.DELETE_STREAM, frames.ident(stream))
    assert doomed.connection.receive().status in {Status.STREAM_NOT_FOUND, Status.TOPIC_NOT_FOUND}


def test_a_watcher_is_notified_of_every_partition(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """The end offset of each partition is sent at once and on every change."""
    watcher = at(BinaryApi, place.there).connection
    watcher.ok(Code.WATCH_PARTITIONS, long_poll.watch(stream, [0, 1, 2, 3]))
    ends = {entry.partition: entry.next_offset for entry in long_poll.next_entries(watcher, 4)}
    assert ends == dict.fromkeys(range(4), 0)
    for partition in range(4):
        root.send(stream, *(Sent(b"m") for _ in range(partition + 1)), partition=partition)
    while ends != {partition: partition + 1 for partition in range(4)}:
        for entry in long_poll.entries(watcher.receive()):
            assert entry.status == Status.OK
            assert entry.next_offset >= ends[entry.partition]
            ends[entry.partition] = entry.next_offset


def test_a_poll_over_http(place: Place, root: BinaryApi, at: At, stream: str, aside) -> None:
    """A long poll waits for messages sent at the other gateway."""
    api = at(HttpApi, place.there)
    path = f"/streams/{stream}/topics/t/messages?partition_id=3&kind=next&wait_ms=50000"
    polled = aside(lambda: api.ask("GET", path))
    time.sleep(HEAD_START_SECONDS)
    root.send(stream, Sent(b"awaited"), partition=3)
    assert polled.result(40)["count"] == 1


def test_server_sent_events(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """One for each message, as they come."""
    api = at(HttpApi, place.there)
    connection = http.client.HTTPConnection(place.there.http, timeout=SECONDS_MAX)
    path = f"/streams/{stream}/topics/t/events?partition_id=1&kind=first"
    connection.request("GET", path, headers={"Authorization": f"Bearer {api.token}"})
    response = connection.getresponse()
    assert response.status == http.HTTPStatus.OK
    offsets: list[int] = []
    for number in range(20):
        root.send(stream, Sent(b"%d" % number), partition=1)
        while len(offsets) <= number:
            line = response.readline()
            assert line, "the events have ended"
            if line.startswith(b"data: "):
                offsets.append(json.loads(line[6:])["header"]["offset"])
    assert offsets == list(range(20))
    connection.close()


def test_a_call_that_consumes(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """Every partition of the topic, of which each goes on in its order."""
    start = v1.Start(first=v1.Start.First())
    topic = {"stream": v1.Identifier(name=stream), "topic": v1.Identifier(name="t")}
    ended = threading.Event()

    def steps() -> Iterator[v1.ConsumeRequest]:
        yield v1.ConsumeRequest(subscribe=v1.Subscribe(**topic, start=start))
        ended.wait(SECONDS_MAX)

    call = at(GrpcApi, place.there).caller.subscriptions.Consume(steps(), timeout=SECONDS_MAX)
    assert list(next(call).subscribed.partition_ids) == [0, 1, 2, 3]
    found: dict[int, list[int]] = {partition: [] for partition in range(4)}
    for number in range(40):
        root.send(stream, Sent(b"%d" % number), partition=number % 4)
    while sum(map(len, found.values())) < 40:
        batch = next(call).batch
        found[batch.partition_id] += [message.offset for message in batch.messages]
    assert found == {partition: list(range(10)) for partition in range(4)}
    ended.set()
    call.cancel()


def test_a_page_in_a_browser(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """A page receives messages sent at either gateway."""
    page, there = at(PushApi, place.there), at(BinaryApi, place.there)
    page.subscribe(stream, 2, {"kind": "last"})
    for number in range(20):
        sender = root if number % 2 else there
        sender.send(stream, Sent(b"%d" % number, 1), partition=2)
        assert page.messages(1) == [Sent(b"%d" % number, 1)]
