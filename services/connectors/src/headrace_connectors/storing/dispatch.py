"""Delivery of several batches at a time, in the order of each topic."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.sdk.direct import Outgoing
from headrace.sdk.errors import HeadraceError, NotDelivered
from headrace_connectors.admission.table import Name
from headrace_connectors.contract import Record
from headrace_connectors.failures import Undelivered
from headrace_connectors.storing.delivery import Delivery, DirectProducer

Result = Any
"""Places of messages, or a `HeadraceError`."""


class _Waiting(NamedTuple):
    messages: Sequence[Outgoing]
    acknowledged: asyncio.Future[Result]


class Dispatcher:
    """Sends messages of several batches. A topic has one request at a time: what comes meanwhile is sent with the next.

    So the messages of a topic keep their order, also when a request fails: nothing that waits behind it is sent.

    Args:
        producer: Sends.
        concurrency: Maximum number of topics that are sent to at a time.
        batches_max: Number of batches at a time; when so many wait, no other can come.
        linger: Longest time in seconds for which the first messages of a request wait for further batches.
        messages_max: Number of messages after which a request takes no further batch.
    """

    def __init__(
        self,
        producer: DirectProducer,
        *,
        concurrency: int,
        batches_max: int = 1,
        linger: float = 0.0,
        messages_max: int = 10_000,
    ) -> None:
        self._producer = producer
        self._turns = asyncio.Semaphore(concurrency)
        self._batches_max = batches_max
        self._batches_count = 0
        # Set while no other batch can come.
        self._is_full = asyncio.Event()
        self._linger = linger
        self._messages_max = messages_max
        self._waiting: dict[Name, deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: Exception | None = None
        """The first failure; nothing more is queued."""

    def dispatch(self, groups: Mapping[Name, Sequence[Outgoing]]) -> Awaitable[dict[Name, Result]]:
        """Queue messages now; wait for the result until the server has acknowledged them, or has not.

        Returns:
            For each topic places of messages, or an exception. The first batch of a request that failed has its
            failure, and those behind it `NotDelivered`.
        """
        self._batches_count += 1
        if self._batches_count >= self._batches_max:
            self._is_full.set()
        acknowledged = {name: self._queued(name, messages) for name, messages in groups.items()}
        return self._gathered(acknowledged)

    async def _gathered(self, acknowledged: Mapping[Name, asyncio.Future[Result]]) -> dict[Name, Result]:
        try:
            results = {name: await future for name, future in acknowledged.items()}
        finally:
            self._batches_count -= 1
            self._is_full.clear()
        for result in results.values():
            if isinstance(result, Exception) and not isinstance(result, HeadraceError):
                raise result
        return results

    def _queued(self, name: Name, messages: Sequence[Outgoing]) -> asyncio.Future[Result]:
        one = _Waiting(messages, asyncio.get_running_loop().create_future())
        if self.failure is not None:
            self._fail([one], _behind(self.failure))
            return one.acknowledged
        queue = self._waiting.get(name)
        if queue is None:
            queue = self._waiting[name] = deque()
            task = asyncio.create_task(self._send(name, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(one)
        return one.acknowledged

    async def _send(self, name: Name, queue: deque[_Waiting]) -> None:
        while queue:
            if self._linger and sum(len(one.messages) for one in queue) < self._messages_max:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._is_full.wait(), self._linger)
            async with self._turns:
                taken = self._taken(queue)
                together = [message for one in taken for message in one.messages]
                try:
                    result: Result = (await self._producer.send_groups({name: together}))[name]
                except Exception as error:  # noqa: BLE001 - raised again by the batches
                    result = error
            if isinstance(result, Exception):
                taken += queue
                queue.clear()
                self.failure = self.failure or result
                self._fail(taken, result)
            else:
                for one in taken:
                    _answer(one, result)
        del self._waiting[name]

    def _taken(self, queue: deque[_Waiting]) -> list[_Waiting]:
        taken = [queue.popleft()]
        count = len(taken[0].messages)
        while queue and count + len(queue[0].messages) <= self._messages_max:
            count += len(queue[0].messages)
            taken.append(queue.popleft())
        return taken

    def _fail(self, waiting: Sequence[_Waiting], error: Exception) -> None:
        for number, one in enumerate(waiting):
            _answer(one, _behind(error) if number else error)


def _behind(error: Exception) -> NotDelivered:
    """Return the failure of messages that were to be sent after others, or with them."""
    return NotDelivered(f"the messages before them were not stored: {error}")


class OrderedDelivery:
    """Delivers the records of several batches at a time, as if one were delivered after the other.

    After a failure nothing more is sent until `begin_again`: it would come before what is sent once more.

    Args:
        delivery: Routes, admits and encodes.
        dispatcher: Sends.
    """

    def __init__(self, delivery: Delivery, dispatcher: Dispatcher) -> None:
        self._delivery = delivery
        self._dispatcher = dispatcher
        # Batches are queued in the order in which they come.
        self._turn = asyncio.Lock()

    async def deliver(self, records: Sequence[Record]) -> int:
        """Store the records in their topics, as `Delivery.deliver`."""
        try:
            async with self._turn:
                if (failure := self._dispatcher.failure) is not None:
                    raise Undelivered(f"not sent, since the records before them were not stored: {failure}")
                outgoing = await self._delivery.prepare(records)
                sending = self._dispatcher.dispatch(outgoing)
            self._delivery.check(outgoing, await sending)
        except Exception as error:
            self._dispatcher.failure = self._dispatcher.failure or error
            raise
        return self._delivery.stored(sum(map(len, outgoing.values())))

    def begin_again(self) -> None:
        """Go on with the records that are sent once more. No call is in progress."""
        self._dispatcher.failure = None


def _answer(one: _Waiting, result: Result) -> None:
    # A caller that was cancelled waits for nothing.
    if not one.acknowledged.done():
        one.acknowledged.set_result(result)
