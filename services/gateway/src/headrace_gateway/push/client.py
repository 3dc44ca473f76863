"""Requests of an authenticated client."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, assert_never

import headrace_core as core
from headrace_core import CodecError
from headrace_gateway.json_api.errors import Refused
from headrace_gateway.json_api.memory import BUDGET, MESSAGE_BYTES, Exhausted
from headrace_gateway.push import forms
from headrace_gateway.push.connections.socket import Socket
from headrace_gateway.push.feeds.watch import Watch
from headrace_gateway.push.forms import Acknowledge, GiveCredit, Ping, Produce, Subscribe, Unsubscribe
from headrace_gateway.push.producing import SEND_MESSAGES, encoded, messages_count
from headrace_gateway.push.services import Services
from headrace_gateway.push.subscriptions.credit import Credit
from headrace_gateway.push.subscriptions.cursors import Cursor, Subscription
from headrace_gateway.push.subscriptions.filters import Filter
from headrace_gateway.push.subscriptions.following import Following
from headrace_gateway.push.subscriptions.pump import Pump
from headrace_gateway.push.subscriptions.start_resolution import Beginning, Beginnings
from headrace_node.connections.sessions import SessionLost
from headrace_proto.errors import Status

Request = Subscribe | GiveCredit | Acknowledge | Unsubscribe | Produce | Ping


class Client:
    """The requests and subscriptions of one connection, in the context of its server (`BUDGET`)."""

    def __init__(self, user_id: int, services: Services, watch: Watch, socket: Socket, *, is_binary: bool) -> None:
        self.user_id = user_id
        self._services = services
        self._config = services.config
        self._budget = BUDGET.get()
        self._watch = watch
        self._socket = socket
        socket.held = self._budget.held_by(user_id)
        self._pump = Pump(socket, services.metrics, is_binary=is_binary)
        self._beginnings = Beginnings(user_id, sessions=services.sessions, topics=services.topics, watch=watch)
        self._subscriptions: dict[int, Subscription] = {}
        self._followings: dict[int, list[Following]] = {}

    async def close(self) -> None:
        """Release all resources."""
        await self._pump.close()
        if self._socket.held is not None:
            self._socket.held.resize(0)
            self._socket.held = None
        for number in list(self._subscriptions):
            self._forget(number)

    async def execute(self, request: Request) -> None:
        """Execute a request, and answer."""
        match request:
            case GiveCredit():
                subscription = self._subscriptions.get(request.subscription)
                if subscription is not None:
                    subscription.add_credit(request.messages, request.bytes)
            case Acknowledge():
                await self._answered(request.id, self._acknowledge(request))
            case Ping():
                await self._send("ok", id=request.id)
            case Unsubscribe():
                self._forget(request.subscription)
                await self._send("ok", id=request.id)
            case Produce():
                await self._answered(request.id, self._produce(request))
            case Subscribe():
                await self._subscribe(request)
            case _:
                assert_never(request)

    async def append(self, request_id: int, payload: bytes) -> None:
        """Execute a command that appends messages, given its payload, and answer."""
        await self._answered(request_id, self._append_held(payload))

    async def refuse(self, request_id: int | None, refused: Refused) -> None:
        """Send the reason of a refusal, if the request wants an answer."""
        if request_id is not None:
            await self._socket.send_text(forms.encode_error(request_id, refused))

    async def _answered(self, request_id: int | None, work: Awaitable[None]) -> None:
        if await self._attempted(request_id, work) and request_id is not None:
            await self._send("ok", id=request_id)

    async def _attempted(self, request_id: int | None, work: Awaitable[None]) -> bool:
        """Return whether the work succeeds; on failure the client is notified."""
        try:
            await work
        except CodecError as error:
            refused = Refused(error.code, f"{error}.", field=error.field)
        except SessionLost:
            refused = Refused(Status.DISCONNECTED)
        except Exhausted:
            refused = Refused(Status.TOO_MANY_WAITS, "Other requests use the memory of all batches.")
        except Refused as error:
            refused = error
        else:
            return True
        await self.refuse(request_id, refused)
        return False

    async def _acknowledge(self, request: Acknowledge) -> None:
        subscription = self._subscriptions.get(request.subscription)
        if subscription is None:
            raise Refused(Status.INVALID_COMMAND, "The subscription does not exist.", field="subscription")
        if subscription.consumer is None:
            raise Refused(Status.INVALID_COMMAND, "The subscription has no consumer.", field="subscription")
        await self._ask(
            *core.encode_store_consumer_offset(
                stream=request.stream_id,
                topic=request.topic_id,
                partition=request.partition_id,
                consumer=subscription.consumer,
                offset=request.offset,
            )
        )

    async def _produce(self, request: Produce) -> None:
        # One character of base64 becomes less than a byte, but each message gets a header and an index entry in the
        # batch.
        size_bytes_max = 16 * self._config.max_message_size.bytes
        received_bytes = sum(len(message.payload) + len(message.headers) for message in request.messages)
        with self._budget.held_by(self.user_id) as held:
            held.resize(2 * received_bytes + MESSAGE_BYTES * len(request.messages))
            command = await encoded(request, now_micros=self._services.clock(), size_bytes_max=size_bytes_max)
            held.resize(received_bytes + len(command[1]))
            await self._append(*command)

    async def _append_held(self, payload: bytes) -> None:
        with self._budget.held_by(self.user_id) as held:
            held.resize(len(payload))
            await self._append(SEND_MESSAGES, payload)

    async def _append(self, code: int, payload: bytes) -> None:
        await self._ask(code, payload)
        self._services.metrics.received(messages_count(payload), len(payload))

    async def _ask(self, code: int, payload: bytes) -> None:
        answer = await self._services.sessions.call(self.user_id, code, payload)
        if answer.status != Status.OK:
            raise Refused(answer.status, answer.explanation)

    async def _subscribe(self, request: Subscribe) -> None:
        if request.subscription in self._subscriptions:
            refused = Refused(Status.INVALID_COMMAND, "The subscription already exists.", field="subscription")
            await self.refuse(request.id, refused)
        elif len(self._subscriptions) >= self._config.max_subscriptions:
            refused = Refused(Status.TOO_MANY_WAITS, "Too many subscriptions on this connection.")
            await self.refuse(request.id, refused)
        else:
            await self._attempted(request.id, self._begin(request))

    async def _begin(self, request: Subscribe) -> None:
        subscription = Subscription(
            request.subscription,
            watch=self._watch,
            queue=self._pump,
            credit=Credit(messages_max=self._config.max_credit_messages, bytes_max=self._config.max_credit_size.bytes),
            filter_=Filter(request.filter) if request.filter is not None else None,
            consumer=request.consumer.id if request.consumer is not None else None,
        )
        try:
            beginnings = await self._beginnings.of(subscription, request.topics, self._room())
        except BaseException:
            subscription.close()
            raise
        subscription.credit.add(request.credit.messages, request.credit.bytes)
        self._subscriptions[request.subscription] = subscription
        self._services.metrics.subscriptions.inc()
        followings = [self._following(subscription, beginning) for beginning in beginnings]
        self._followings[request.subscription] = followings
        cursors = [cursor for following in followings for cursor in following.begin()]
        await self._send("ok", id=request.id, partitions=[cursor.described() for cursor in cursors])
        for cursor in (cursor for beginning in beginnings for cursor in beginning.resets):
            if cursor in cursors:
                await self._send_reset(subscription, cursor)
        for cursor in cursors:
            cursor.activate()

    async def _send_reset(self, subscription: Subscription, cursor: Cursor) -> None:
        await self._send(
            "reset",
            subscription=subscription.number,
            **cursor.feed.place._asdict(),
            epoch=str(cursor.epoch),
            offset=cursor.offset,
        )

    def _following(self, subscription: Subscription, beginning: Beginning) -> Following:
        return Following(
            subscription,
            beginning,
            topics=self._services.topics,
            watch=self._watch,
            send=self._send,
            room=self._room,
        )

    def _room(self) -> int:
        held = sum(len(subscription.cursors) for subscription in self._subscriptions.values())
        return max(0, self._config.max_partitions - held)

    def _forget(self, number: int) -> None:
        subscription = self._subscriptions.pop(number, None)
        if subscription is not None:
            for following in self._followings.pop(number):
                following.close()
            subscription.close()
            self._services.metrics.subscriptions.dec()

    async def _send(self, kind: str, /, **fields: Any) -> None:
        await self._socket.send_text(forms.encode(kind, **fields))
