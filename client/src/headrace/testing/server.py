"""A real server in the process of a test."""

from __future__ import annotations

import itertools
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headrace.sdk.client import Client, connect
from headrace.sdk.errors import ClientClosed
from headrace_embedded import Server

_STREAM: Final = "tests"


class LocalServer:
    """A real server with temporary data, which can be restarted on its port with its data.

    Use it in a ``with`` block. It serves the binary protocol and HTTP on loopback.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """Describe a server.

        Args:
            settings: Settings by dotted name, as texts: see the reference of settings.
        """
        self._settings = dict(settings or {})
        self._cleanup = ExitStack()
        self._server: Server | None = None
        self._client: Client | None = None
        self._data = Path()
        self._numbers = itertools.count(1)

    @property
    def server(self) -> Server:
        """The running server."""
        if self._server is None:
            raise ClientClosed("the server does not run: use it in a with block")
        return self._server

    @property
    def address(self) -> str:
        """``ip:port`` of the binary protocol; restarts keep it."""
        return self._settings["tcp.address"]

    @property
    def url(self) -> str:
        """URL with credentials, for `headrace.connect`."""
        return self.url_of(self.address)

    def url_of(self, address: str) -> str:
        """Return the URL for another address that leads to the server, such as that of a `FaultyNetwork`."""
        return f"headrace://{self.server.username}:{self.server.password}@{address}"

    @property
    def client(self) -> Client:
        """A client of root, for preparing and checking."""
        if self._client is None:
            self._client = self._cleanup.enter_context(connect(self.url))
        return self._client

    def fresh_topic(self, *, partitions: int = 1) -> tuple[str, str]:
        """Create a topic that no other test uses, and return its stream and name: a few milliseconds."""
        number = next(self._numbers)
        if number == 1:
            self.client.create_stream(_STREAM)
        topic = f"topic-{number}"
        self.client.create_topic(_STREAM, topic, partitions=partitions)
        return _STREAM, topic

    def stop(self) -> None:
        """Stop the server in order; data and address stay for `start`."""
        server, self._server = self.server, None
        server.__exit__(None, None, None)

    def start(self) -> None:
        """Start the server again; nothing happens if it runs."""
        if self._server is not None:
            return
        self._server = Server(self._data, self._settings).__enter__()

    def restart(self) -> None:
        """Stop and start: connections break, members leave their groups, clients have to find their way back."""
        self.stop()
        self.start()

    @contextmanager
    def another_member(self, stream: str, topic: str, group: str) -> Iterator[None]:
        """Let another member be in a group while the block runs: it joins, which is a rebalance, and leaves again.

        It processes nothing, and gives its partitions up at the end of the block. Poll your own consumer for its part
        of the rebalance: a revoked partition moves when its messages are processed.

        Args:
            stream: Stream of the topic.
            topic: The topic.
            group: The group, which has your consumer as a member.
        """
        # With this start, it is a member as soon as it exists.
        with self.client.consumer(stream, topic, group=group, start="end", prefetch_bytes=1):
            yield

    def __enter__(self) -> Self:
        self._data = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="headrace-test-")))
        if "tcp.address" not in self._settings:
            self._settings["tcp.address"] = f"127.0.0.1:{_free_port()}"
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._server is not None:
                self.stop()
        finally:
            self._cleanup.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
