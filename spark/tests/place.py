"""A stream on a real server, and how Spark is told of it."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from tests.compatibility.raw import RawConnection
from tests.server_process import PASSWORD, USERNAME, ServerProcess

from headrace_core import Client, encode_send_messages, encode_user_headers

# Not one of the names that are settings of servers, which refuse those that they do not know.
PASSWORD_VARIABLE = "SPARK_TESTS_PASSWORD"
SMALL_SEGMENTS = {"SYSTEM_SEGMENT_SIZE": "64 KiB", "DURABILITY": "fsync"}
"""Settings of a server: old segments can be deleted, and all messages are on the disk before they are acknowledged."""


class Place:
    """A stream with topics."""

    def __init__(self, server: ServerProcess, stream: str) -> None:
        self.server = server
        self.stream = stream
        self.client = self.connected()
        self.client.create_stream(stream)

    def connected(self) -> Client:
        """A client that is logged in as root."""
        client = Client.connect(self.server.address)
        client.login(USERNAME, PASSWORD)
        return client

    def topic(self, name: str, *counts: int, prefix: str = "") -> None:
        """Make a topic with so many messages in each of its partitions: `0:0`, `0:1` and so on."""
        self.client.create_topic(self.stream, name, len(counts))
        for number, count in enumerate(counts):
            if count:
                self.send(name, number, range(count), prefix=prefix)

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, prefix: str = "") -> None:
        """Append messages `partition:number`."""
        payloads = [f"{prefix}{partition}:{number}".encode() for number in numbers]
        for begin in range(0, len(payloads), 10_000):
            self.client.send(self.stream, topic, payloads[begin : begin + 10_000], partition=partition)

    def send_with(self, topic: str, message_id: int, payload: bytes, headers: list[Any], origin_micros: int) -> None:
        """Append one message with everything that a message can have, to partition 0."""
        with RawConnection.as_root(self.server.address) as connection:
            connection.ok(
                *encode_send_messages(
                    [(message_id, payload, encode_user_headers(headers))],
                    stream=self.stream,
                    topic=topic,
                    partition=0,
                    origin_timestamp_micros=origin_micros,
                )
            )

    def options(self, **more: str) -> dict[str, str]:
        """Options that name this server and stream; more of them by name, underscores for dots."""
        return {
            "servers": self.server.grpc_address,
            "username": USERNAME,
            "passwordEnv": PASSWORD_VARIABLE,
            "stream": self.stream,
        } | {name.replace("_", "."): value for name, value in more.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
