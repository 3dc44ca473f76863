"""TCP proxy that breaks connections, adds latency, or holds back server responses."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

_PIECE = 16 * 1024


class Proxy:
    """Forwards to a server, on a port of its own."""

    def __init__(self, address: str) -> None:
        self._target = address
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut_after: int | None = None
        """Number of server bytes after which a connection is broken; None: never."""
        self.may_forward = threading.Event()
        """Server responses are held back while this event is not set."""
        self.may_forward.set()
        self.delay_seconds = 0.0
        """Latency of each chunk, in both directions."""
        self.cuts = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._listener)
        self.may_forward.set()
        self.cut()

    def cut(self) -> None:
        """Break all connections."""
        for connection in list(self._open):
            _end(connection)

    def _accept(self) -> None:
        host, _, port = self._target.rpartition(":")
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((host, int(port)))
            self._open += [caller, server]
            for source, target, is_answer in ((caller, server, False), (server, caller, True)):
                threading.Thread(target=self._forward, args=(source, target, is_answer), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        count = 0
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                time.sleep(self.delay_seconds)
                if is_answer:
                    self.may_forward.wait()
                    count += len(piece)
                    if self.cut_after is not None and count > self.cut_after:
                        self.cuts += 1
                        break
                target.sendall(piece)
        _end(source)
        _end(target)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
