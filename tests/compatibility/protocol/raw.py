"""Connection that sends exactly the given bytes."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Polled, polled
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.server_process import PASSWORD, USERNAME


@dataclass(frozen=True, slots=True)
class Reply:
    """One response frame."""

    status: int
    payload: bytes = b""


class ConnectionClosed(Exception):
    """The server closed the connection."""


class RawConnection:
    """A TCP connection to the binary protocol; it sends and retries nothing on its own."""

    def __init__(self, address: str, *, timeout_seconds: float = 20.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout_seconds = timeout_seconds

    @classmethod
    def as_root(cls, address: str) -> Self:
        """Connect and log in as root."""
        return cls.as_user(address, USERNAME, PASSWORD)

    @classmethod
    def as_user(cls, address: str, username: str, password: str) -> Self:
        """Connect and log in."""
        connection = cls(address)
        connection.ok(Code.LOGIN_USER, frames.login(username, password))
        return connection

    @property
    def local_address(self) -> str:
        """Return `ip:port` of the local end."""
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def send_frame(self, code: int, payload: bytes = b"") -> None:
        """Send a request without waiting for its response."""
        self.write(frames.request(code, payload))

    def receive(self, *, may_explain: bool = False) -> Reply:
        """Receive the next response.

        Args:
            may_explain: True: the client has asked for explanations, so a refusal may have a text.

        Raises:
            ConnectionClosed: The server closed the connection.
        """
        status, length = struct.unpack("<II", self._read(8))
        if status != Status.OK and not may_explain:
            assert length == 0, f"an error response carries no payload, this one {length} bytes"
        return Reply(status, self._read(length))

    def request(self, code: int, payload: bytes = b"") -> Reply:
        """Send a request and wait for its response."""
        self.send_frame(code, payload)
        return self.receive()

    def requests(self, code: int, payloads: Sequence[bytes]) -> list[Reply]:
        """Send requests without waiting for responses in between; they must fit into the buffers of both ends."""
        self.write(b"".join(frames.request(code, payload) for payload in payloads))
        return [self.receive() for _ in payloads]

    def status(self, code: int, payload: bytes = b"") -> int:
        """Send a request and return the status of its response."""
        return self.request(code, payload).status

    def ok(self, code: int, payload: bytes = b"") -> bytes:
        """Send a request that has to succeed and return the payload of its response."""
        reply = self.request(code, payload)
        assert reply.status == Status.OK, f"{Code(code).name}: status {reply.status}"
        return reply.payload

    def is_alive(self) -> bool:
        """Return whether the connection still answers."""
        return self.request(Code.PING) == Reply(Status.OK)

    def wait_closed(self) -> bool:
        """Return whether the server closes the connection without sending anything more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, length: int) -> bytes:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            try:
                count = self.socket.recv_into(view)
            except ConnectionResetError:
                count = 0
            if count == 0:
                raise ConnectionClosed
            view = view[count:]
        return bytes(data)

    # ---- requests that most tests need

    def create_topic(self, stream: str, topic: str = "t", partitions: int = 1) -> None:
        """Create a stream with one topic in it."""
        self.ok(Code.CREATE_STREAM, frames.name(stream))
        self.ok(Code.CREATE_TOPIC, frames.create_topic(stream, topic, partitions))

    def send(
        self, stream: int | str, topic: int | str, partition: int | bytes, *payloads: bytes, headers: bytes = b""
    ) -> None:
        """Append one batch; `partition` is a number or an encoded `Partitioning`."""
        partitioning = frames.to_partition(partition) if isinstance(partition, int) else partition
        messages = [frames.message(payload, headers) for payload in payloads]
        assert self.ok(Code.SEND_MESSAGES, frames.send(stream, topic, partitioning, messages)) == b""

    def poll(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        strategy: Strategy,
        value: int = 0,
        count: int = 100,
        *,
        auto_commit: bool = False,
        who: bytes = frames.consumer(1),
    ) -> Polled:
        """Read messages."""
        payload = frames.poll(stream, topic, partition, strategy, value, count, auto_commit=auto_commit, who=who)
        return polled(self.ok(Code.POLL_MESSAGES, payload))

    def stored_offset(
        self, stream: int | str, topic: int | str, partition: int | None, *, who: bytes = frames.consumer(1)
    ) -> int | None:
        """Return the stored offset of a consumer, if there is one."""
        answer = self.ok(Code.GET_CONSUMER_OFFSET, frames.consumer_offset(stream, topic, partition, who=who))
        if not answer:
            return None
        _, _, stored = struct.unpack("<IQQ", answer)
        return int(stored)

    def close(self) -> None:
        """Close the local end."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def eventually(what: object, condition: object, *, timeout_seconds: float = 30.0) -> None:
    """Wait for an asynchronous effect on the server.

    Args:
        what: Name of the effect for the failure message.
        condition: Called until it returns a true value.
        timeout_seconds: Timeout.
    """
    assert callable(condition)
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_seconds} s"
        time.sleep(0.01)
