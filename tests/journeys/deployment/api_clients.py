"""Clients of each API of a gateway with a small common interface."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import grpc
from websockets.sync.client import connect

from headrace_core import decode_user_headers, encode_user_headers
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, status_of
from tests.apis.http.api import b64
from tests.compatibility.protocol import answers, frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.compatibility.protocol.websocket import WebSocketConnection
from tests.journeys.deployment.place import Account, Gateway

SECONDS_MAX = 30.0
"""Timeout of one response."""


class Refused(Exception):
    """A request was refused, with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(Status(status).name if status in set(Status) else status)
        self.status = status


@dataclass(frozen=True, slots=True)
class Sent:
    """A message, as its producer made it."""

    payload: bytes
    id: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    """Texts and values of the kind `raw`."""


class Api(ABC):
    """A logged-in client of one API."""

    name: ClassVar[str]

    def __init__(self, gateway: Gateway, account: Account) -> None:
        self.gateway = gateway
        self.account = account

    @abstractmethod
    def send(self, stream: str, *messages: Sent, partition: int = 0) -> None:
        """Append one batch to the topic `t` of a stream."""

    @abstractmethod
    def read(self, stream: str, count: int, *, partition: int = 0) -> list[Sent]:
        """Read the first `count` messages, which must exist."""

    @abstractmethod
    def store(self, stream: str, consumer: str, offset: int, *, partition: int = 0) -> None:
        """Store an offset for a consumer."""

    @abstractmethod
    def next_offset(self, stream: str, consumer: str, *, partition: int = 0) -> int:
        """Return the offset after the stored one of a consumer, provided messages exist."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BinaryApi(Api):
    """The binary protocol over TCP."""

    name = "binary"

    def __init__(self, gateway: Gateway, account: Account) -> None:
        super().__init__(gateway, account)
        self.connection = self._connected()
        with ExitStack() as stack:
            stack.callback(self.close)
            self._ok(Code.LOGIN_USER, frames.login(account.username, account.password))
            stack.pop_all()

    def send(self, stream: str, *messages: Sent, partition: int = 0) -> None:
        batch = [frames.message(it.payload, _raw(it.headers), message_id=it.id) for it in messages]
        self._ok(Code.SEND_MESSAGES, frames.send(stream, "t", frames.to_partition(partition), batch))

    def read(self, stream: str, count: int, *, partition: int = 0) -> list[Sent]:
        return self._poll(stream, partition, Strategy.FIRST, count, "nobody")[1]

    def store(self, stream: str, consumer: str, offset: int, *, partition: int = 0) -> None:
        who = frames.consumer(consumer)
        self._ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", partition, offset, who=who))

    def next_offset(self, stream: str, consumer: str, *, partition: int = 0) -> int:
        return self._poll(stream, partition, Strategy.NEXT, 1, consumer)[0][0]

    def close(self) -> None:
        self.connection.close()

    def _connected(self) -> RawConnection:
        return RawConnection(self.gateway.tcp, timeout_seconds=SECONDS_MAX)

    def _ok(self, code: Code, payload: bytes) -> bytes:
        reply = self.connection.request(code, payload)
        if reply.status != Status.OK:
            raise Refused(reply.status)
        return reply.payload

    def _poll(
        self, stream: str, partition: int, strategy: Strategy, count: int, consumer: str
    ) -> tuple[list[int], list[Sent]]:
        who = frames.consumer(consumer)
        polled = answers.polled(
            self._ok(Code.POLL_MESSAGES, frames.poll(stream, "t", partition, strategy, 0, count, who=who))
        )
        found = [Sent(it.payload, it.message_id, _of_raw(it.headers)) for it in polled.messages]
        return polled.offsets, found


class WebSocketApi(BinaryApi):
    """The binary protocol over WebSocket."""

    name = "websocket"

    def _connected(self) -> RawConnection:
        return WebSocketConnection(self.gateway.websocket, timeout_seconds=SECONDS_MAX)


class HttpApi(Api):
    """The HTTP interface."""

    name = "http"

    def __init__(self, gateway: Gateway, account: Account, token: str | None = None) -> None:
        super().__init__(gateway, account)
        self._connection = http.client.HTTPConnection(gateway.http, timeout=SECONDS_MAX)
        self.token = token or http_token(gateway, account)

    def send(self, stream: str, *messages: Sent, partition: int = 0) -> None:
        partitioning = {"kind": "partition_id", "value": b64(partition.to_bytes(4, "little"))}
        batch = [{"id": str(it.id), "payload": b64(it.payload), "user_headers": _json(it.headers)} for it in messages]
        body = {"partitioning": partitioning, "messages": batch}
        self.ask("POST", f"/streams/{stream}/topics/t/messages", body)

    def read(self, stream: str, count: int, *, partition: int = 0) -> list[Sent]:
        query = f"partition_id={partition}&kind=first&count={count}&consumer_id=nobody"
        polled = self.ask("GET", f"/streams/{stream}/topics/t/messages?{query}")
        return [
            Sent(base64.b64decode(it["payload"]), it["header"]["id"], _of_json(it["user_headers"]))
            for it in polled["messages"]
        ]

    def store(self, stream: str, consumer: str, offset: int, *, partition: int = 0) -> None:
        body = {"consumer_id": consumer, "partition_id": partition, "offset": offset}
        self.ask("PUT", f"/streams/{stream}/topics/t/consumer-offsets", body)

    def next_offset(self, stream: str, consumer: str, *, partition: int = 0) -> int:
        query = f"partition_id={partition}&kind=next&count=1&consumer_id={consumer}"
        polled = self.ask("GET", f"/streams/{stream}/topics/t/messages?{query}")
        return int(polled["messages"][0]["header"]["offset"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The body of the answer."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, headers)
        return _answer(self._connection.getresponse())

    def close(self) -> None:
        self._connection.close()


class GrpcApi(Api):
    """The gRPC services."""

    name = "grpc"

    def __init__(self, gateway: Gateway, account: Account, token: str | None = None) -> None:
        super().__init__(gateway, account)
        if token is None:
            with GrpcCaller(gateway.grpc, None) as anonymous:
                request = v1.LoginRequest(username=account.username, password=account.password)
                token = called(anonymous.login.Login, request).token
        self.token = token
        self.caller = GrpcCaller(gateway.grpc, token)

    def send(self, stream: str, *messages: Sent, partition: int = 0) -> None:
        batch = [
            v1.NewMessage(
                payload=it.payload,
                id=it.id.to_bytes(16, "little"),
                headers=[
                    v1.Header(
                        key=key.encode(),
                        value=value,
                        key_kind=v1.HEADER_KIND_STRING,
                        value_kind=v1.HEADER_KIND_RAW,
                    )
                    for key, value in it.headers
                ],
            )
            for it in messages
        ]
        to = v1.Partitioning(partition_id=partition)
        called(self.caller.messages.Produce, v1.ProduceRequest(**_topic(stream), partitioning=to, messages=batch))

    def read(self, stream: str, count: int, *, partition: int = 0) -> list[Sent]:
        start = v1.Start(first=v1.Start.First())
        request = v1.PollRequest(**_topic(stream), partition_id=partition, start=start, count=count)
        return [_of_grpc(it) for it in called(self.caller.messages.Poll, request).messages]

    def store(self, stream: str, consumer: str, offset: int, *, partition: int = 0) -> None:
        who = v1.Consumer(consumer=v1.Identifier(name=consumer))
        request = v1.StoreOffsetRequest(**_topic(stream), partition_id=partition, consumer=who, offset=offset)
        called(self.caller.messages.StoreOffset, request)

    def next_offset(self, stream: str, consumer: str, *, partition: int = 0) -> int:
        who = v1.Consumer(consumer=v1.Identifier(name=consumer))
        request = v1.PollRequest(**_topic(stream), partition_id=partition, consumer=who, count=1)
        return int(called(self.caller.messages.Poll, request).messages[0].offset)

    def close(self) -> None:
        self.caller.__exit__(None, None, None)


class PushApi(Api):
    """The push to browsers, in JSON."""

    name = "push"

    def __init__(self, gateway: Gateway, account: Account, token: str | None = None) -> None:
        super().__init__(gateway, account)
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        url = f"ws://{gateway.http}/ws"
        with ExitStack() as stack:
            self._socket = stack.enter_context(connect(url, proxy=None, max_size=None, open_timeout=SECONDS_MAX))
            self.ask("login", token=token or http_token(gateway, account))
            self._opened = stack.pop_all()

    def send(self, stream: str, *messages: Sent, partition: int = 0) -> None:
        batch = [{"id": str(it.id), "payload": b64(it.payload), "headers": _json(it.headers)} for it in messages]
        partitioning = {"kind": "partition_id", "value": partition}
        self.ask("produce", stream=stream, topic="t", partitioning=partitioning, messages=batch)

    def read(self, stream: str, count: int, *, partition: int = 0) -> list[Sent]:
        number, _ = self.subscribe(stream, partition, {"kind": "first"})
        found = self.messages(count)
        self.ask("unsubscribe", subscription=number)
        return found

    def store(self, stream: str, consumer: str, offset: int, *, partition: int = 0) -> None:
        number, begun = self.subscribe(stream, partition, {"kind": "last"}, consumer)
        place = {name: begun[name] for name in ("stream_id", "topic_id", "partition_id")}
        self.ask("ack", subscription=number, **place, offset=offset)
        self.ask("unsubscribe", subscription=number)

    def next_offset(self, stream: str, consumer: str, *, partition: int = 0) -> int:
        number, begun = self.subscribe(stream, partition, {"kind": "next"}, consumer)
        self.ask("unsubscribe", subscription=number)
        return int(begun["offset"])

    def subscribe(
        self, stream: str, partition: int, start: dict[str, str], consumer: str = "nobody"
    ) -> tuple[int, dict[str, Any]]:
        """Begin to read a partition: number of the subscription, and where it begins."""
        number = next(self._numbers)
        topics = [{"stream": stream, "topic": "t", "partitions": [partition], "start": start}]
        credit = {"messages": 1000, "bytes": 4_000_000}
        self._events.clear()
        begun = self.ask("subscribe", subscription=number, topics=topics, credit=credit, consumer={"id": consumer})
        return number, begun["partitions"][0]

    def messages(self, count: int) -> list[Sent]:
        """The next so many messages of the only subscription."""
        found: list[Sent] = []
        while len(found) < count:
            event = self._events.pop(0) if self._events else self._received()
            found += [
                Sent(base64.b64decode(it["payload"]), int(it["id"]), _of_json(it["headers"]))
                for it in event.get("messages", [])
            ]
        return found

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"type": kind, "id": number, **fields}))
        while (answer := self._received()).get("id") != number:
            self._events.append(answer)
        if answer["type"] == "error":
            raise Refused(answer["code"])
        return answer

    def close(self) -> None:
        self._opened.close()

    def _received(self) -> dict[str, Any]:
        return dict(json.loads(self._socket.recv(timeout=SECONDS_MAX)))


APIS: dict[str, type[Api]] = {api.name: api for api in (BinaryApi, WebSocketApi, HttpApi, GrpcApi, PushApi)}


def http_token(gateway: Gateway, account: Account) -> str:
    """The token of a login over HTTP."""
    body = {"username": account.username, "password": account.password}
    return str(http_login(gateway, "/users/login", body))


def http_login(gateway: Gateway, path: str, body: dict[str, str]) -> str:
    """The token that a kind of login over HTTP gives."""
    connection = http.client.HTTPConnection(gateway.http, timeout=SECONDS_MAX)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return str(_answer(connection.getresponse())["access_token"]["token"])
    finally:
        connection.close()


def called(method: Any, request: Any) -> Any:
    """The answer to a call of gRPC."""
    try:
        return method(request, timeout=SECONDS_MAX)
    except grpc.RpcError as error:
        _, status = status_of(error)
        raise Refused(status) from error


def _answer(response: http.client.HTTPResponse) -> Any:
    content = response.read()
    body = json.loads(content) if content else None
    if response.status >= http.HTTPStatus.BAD_REQUEST:
        raise Refused(int(body["id"]))
    return body


def _topic(stream: str) -> dict[str, v1.Identifier]:
    return {"stream": v1.Identifier(name=stream), "topic": v1.Identifier(name="t")}


def _raw(headers: tuple[tuple[str, bytes], ...]) -> bytes:
    return encode_user_headers([(("string", key.encode()), ("raw", value)) for key, value in headers])


def _of_raw(encoded: bytes) -> tuple[tuple[str, bytes], ...]:
    return tuple((key.decode(), value) for (_, key), (_, value) in decode_user_headers(encoded) or ())


def _json(headers: tuple[tuple[str, bytes], ...]) -> list[dict[str, Any]]:
    return [
        {"key": {"kind": "string", "value": b64(key.encode())}, "value": {"kind": "raw", "value": b64(value)}}
        for key, value in headers
    ]


def _of_json(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (base64.b64decode(it["key"]["value"]).decode(), base64.b64decode(it["value"]["value"])) for it in headers or ()
    )


def _of_grpc(message: v1.Message) -> Sent:
    headers = tuple((header.key.decode(), header.value) for header in message.headers)
    return Sent(message.payload, int.from_bytes(message.id, "little"), headers)
