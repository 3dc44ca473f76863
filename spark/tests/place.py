"""A stream on a real server, with the Spark options for it."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import PASSWORD, USERNAME, ServerProcess

from headrace_core import Client, encode_send_messages, encode_user_headers

# Differs from the names of server settings, because servers refuse unknown ones.
PASSWORD_VARIABLE = "SPARK_TESTS_PASSWORD"
SMALL_SEGMENTS = {"SYSTEM_SEGMENT_SIZE": "64 KiB", "DURABILITY": "fsync"}
"""Server settings: deletable old segments, and all messages synced to disk before the acknowledgement."""


class Place:
    """A stream with topics."""

    def __init__(self, server: ServerProcess, stream: str) -> None:
        self.server = server
        self.stream = stream
        self.client = self.connected()
        self.client.create_stream(stream)

    def connected(self) -> Client:
        """An authenticated client of the root user."""
        client = Client.connect(self.server.address)
        client.login(USERNAME, PASSWORD)
        return client

    def topic(self, name: str, *counts: int, prefix: str = "") -> None:
        """Create a topic with the given number of messages in each partition: `0:0`, `0:1` and so on."""
        self.client.create_topic(self.stream, name, len(counts))
        for number, count in enumerate(counts):
            if count:
                self.send(name, number, range(count), prefix=prefix)

    def send(self, topic: str, partition: int, numbers: Iterable[int], *, prefix: str = "") -> None:
        """Append messages `partition:number`."""
        payloads = [f"{prefix}{partition}:{number}".encode() for number in numbers]
        for begin in range(0, len(payloads), 10_000):
            self.client.send(self.stream, topic, payloads[begin : begin + 10_000], partition=partition)

    def send_with(
        self, topic: str, message_id: int, payload: bytes, headers: list[Any] | bytes, origin_micros: int
    ) -> None:
        """Append a message with all optional fields, to partition 0. Headers may be given as they are stored."""
        encoded = headers if isinstance(headers, bytes) else encode_user_headers(headers)
        with RawConnection.as_root(self.server.address) as connection:
            connection.ok(
                *encode_send_messages(
                    [(message_id, payload, encoded)],
                    stream=self.stream,
                    topic=topic,
                    partition=0,
                    origin_timestamp_micros=origin_micros,
                )
            )

    def options(self, **more: str) -> dict[str, str]:
        """Options for this server and stream; further ones as keyword arguments, with underscores for dots."""
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
