"""Messages of small batches are gathered for each topic, and each batch learns about its own (CON-13)."""

from __future__ import annotations

import asyncio

import pytest

from headrace.sdk.direct import Outgoing
from headrace.sdk.errors import DeadlineExceeded, NotDelivered
from headrace_connectors.pipeline_file.models import DeliverySettings
from headrace_connectors.storing.dispatch import Dispatcher

A, B = ("s", "a"), ("s", "b")


class Producer:
    """Answers each request when its test says so."""

    def __init__(self):
        self.requests = []
        self.answers = {}
        self.arrived = asyncio.Event()

    async def send_groups(self, groups):
        ((name, messages),) = groups.items()
        self.requests.append((name, [int(message.payload) for message in messages]))
        answer = self.answers[len(self.requests)] = asyncio.get_running_loop().create_future()
        self.arrived.set()
        return {name: await answer}

    async def request(self, number):
        """Wait for a request, and return it."""
        async with asyncio.timeout(30):
            while len(self.requests) < number:
                self.arrived.clear()
                await self.arrived.wait()
        return self.requests[number - 1]


def of(*numbers):
    return [Outgoing(b"%d" % number) for number in numbers]


def sent(dispatcher, groups):
    return asyncio.ensure_future(dispatcher.dispatch(groups))


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_comes_while_a_request_is_on_its_way_is_sent_together():
    """CON-73: a batch is acknowledged when the server has its records, and not before."""
    producer = Producer()
    dispatcher = Dispatcher(producer, concurrency=4)
    batches = [sent(dispatcher, {A: of(0)})]
    assert await producer.request(1) == (A, [0])
    batches += [sent(dispatcher, {A: of(number)}) for number in range(1, 6)]
    await settled()
    assert producer.requests == [(A, [0])]
    producer.answers[1].set_result(["stored"])
    assert await producer.request(2) == (A, [1, 2, 3, 4, 5])
    await settled()
    assert [batch.done() for batch in batches] == [True] + [False] * 5
    producer.answers[2].set_result(["stored"])
    assert await asyncio.gather(*batches) == [{A: ["stored"]}] * 6


async def test_topics_do_not_wait_for_each_other():
    """CON-73: a batch for two topics waits for both, others for their own alone."""
    producer = Producer()
    dispatcher = Dispatcher(producer, concurrency=4)
    both = sent(dispatcher, {A: of(1), B: of(2)})
    await producer.request(2)
    alone = sent(dispatcher, {B: of(3)})
    producer.answers[2].set_result([])
    await producer.request(3)
    producer.answers[3].set_result([])
    assert await alone == {B: []}
    assert not both.done()
    producer.answers[1].set_result([])
    assert await both == {A: [], B: []}


async def test_a_request_is_bounded():
    producer = Producer()
    dispatcher = Dispatcher(producer, concurrency=1, messages_max=3)
    batches = [sent(dispatcher, {A: of(number, number)}) for number in range(3)]
    for number in (1, 2, 3):
        assert await producer.request(number) == (A, [number - 1] * 2)
        producer.answers[number].set_result([])
    await asyncio.gather(*batches)


async def test_no_more_topics_at_a_time_than_allowed():
    producer = Producer()
    dispatcher = Dispatcher(producer, concurrency=1)
    batch = sent(dispatcher, {A: of(1), B: of(2)})
    await producer.request(1)
    await settled()
    assert producer.requests == [(A, [1])]
    producer.answers[1].set_result([])
    assert await producer.request(2) == (B, [2])
    producer.answers[2].set_result([])
    await batch


async def test_nothing_is_sent_behind_a_failure():
    """CON-71, CON-73: the first batch has the failure, and those behind it that they were not sent."""
    producer = Producer()
    dispatcher = Dispatcher(producer, concurrency=4)
    first = sent(dispatcher, {A: of(1)})
    await producer.request(1)
    behind = [sent(dispatcher, {A: of(2)}), sent(dispatcher, {A: of(3)})]
    await settled()
    failure = DeadlineExceeded("late")
    producer.answers[1].set_result(failure)
    assert await first == {A: failure}
    for batch in behind:
        assert isinstance((await batch)[A], NotDelivered)
    # Topics that have not failed get nothing more, either, until it begins again.
    assert isinstance((await dispatcher.dispatch({B: of(4)}))[B], NotDelivered)
    assert len(producer.requests) == 1
    dispatcher.failure = None
    again = sent(dispatcher, {A: of(1, 2)})
    assert await producer.request(2) == (A, [1, 2])
    producer.answers[2].set_result([])
    assert await again == {A: []}


async def test_a_mistake_reaches_every_batch():
    producer = Producer()
    dispatcher = Dispatcher(producer, concurrency=4)
    batch = sent(dispatcher, {A: of(1)})
    await producer.request(1)
    producer.answers[1].set_exception(RuntimeError("a mistake"))
    with pytest.raises(RuntimeError, match="a mistake"):
        await batch


async def test_records_wait_for_others():
    """CON-73: `linger` ends at once when no other batch can come."""
    producer = Producer()
    dispatcher = Dispatcher(producer, concurrency=4, batches_max=3, linger=3600.0)
    batches = [sent(dispatcher, {A: of(1)}), sent(dispatcher, {A: of(2)})]
    await settled()
    assert producer.requests == []
    batches.append(sent(dispatcher, {A: of(3)}))
    assert await producer.request(1) == (A, [1, 2, 3])
    producer.answers[1].set_result([])
    await asyncio.gather(*batches)


async def test_records_do_not_wait_for_longer_than_they_may():
    producer = Producer()
    batch = sent(Dispatcher(producer, concurrency=4, batches_max=3, linger=0.001), {A: of(1)})
    assert await producer.request(1) == (A, [1])
    producer.answers[1].set_result([])
    await batch


@pytest.mark.parametrize(
    ("settings", "text"),
    [({}, "set batches_in_flight to more than 1"),
     ({"batches_in_flight": 2, "guarantee": "exactly_once"}, "has no effect with guarantee")],
)  # fmt: skip
def test_a_linger_without_effect_is_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        DeliverySettings(linger="5 ms", **settings)
