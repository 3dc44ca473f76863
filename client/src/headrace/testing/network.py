"""A network between a client and a server that does what networks do."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_CHUNK_BYTES: Final = 64 * 1024


class FaultyNetwork:
    """A TCP proxy on loopback in front of a server. Use it in a ``with`` block, and connect to its `address`.

    Faults last until `heal`:

        with LocalServer() as server, FaultyNetwork(server.address) as network:
            client = headrace.connect(server.url_of(network.address))
            network.lose_answers()      # requests arrive, answers do not
            network.cut()               # every connection breaks now
            network.heal()              # all is well again
    """

    def __init__(self, server: str) -> None:
        """Describe a network.

        Args:
            server: ``ip:port`` behind it.
        """
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._threads: list[threading.Thread] = []
        self._answers_pass = True
        self._requests_pass = True
        self._accepts = True
        self._delay = 0.0
        self._cut_after: int | None = None
        self._is_open = True

    @property
    def address(self) -> str:
        """``ip:port`` for clients."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def lose_answers(self) -> None:
        """Let requests arrive, and lose all answers, until `heal`."""
        self._answers_pass = False

    def lose_requests(self) -> None:
        """Lose all requests, until `heal`."""
        self._requests_pass = False

    def delay(self, seconds: float) -> None:
        """Hold each piece of data up for so long, until `heal`."""
        self._delay = seconds

    def cut(self) -> None:
        """Break every connection now; new ones are accepted."""
        with self._lock:
            pairs = self._taken()
        for pair in pairs:
            _close(*pair)

    def cut_after(self, request_bytes: int) -> None:
        """Break the connection that transports requests beyond so many bytes from now on: in the middle of a batch."""
        self._cut_after = request_bytes

    def part(self) -> None:
        """Break every connection and refuse new ones, until `heal`: the server is unreachable."""
        self._accepts = False
        self.cut()

    def heal(self) -> None:
        """End all faults. What was lost stays lost, so its connections break."""
        # At once: what is under way on a lossy connection is lost, and new connections lose nothing.
        with self._lock:
            is_lossy = not (self._answers_pass and self._requests_pass)
            pairs = self._taken() if is_lossy else set()
            self._answers_pass = self._requests_pass = self._accepts = True
        self._delay, self._cut_after = 0.0, None
        for pair in pairs:
            _close(*pair)

    def _taken(self) -> set[tuple[socket.socket, socket.socket]]:
        """Take all connections, which pass nothing on from then on. The caller has the lock, and closes them."""
        pairs, self._pairs = self._pairs, set()
        return pairs

    def _accept(self) -> None:
        while self._is_open:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._accepts:
                _close(client)
                continue
            try:
                server = socket.create_connection(self._server, timeout=5)
            except OSError:
                _close(client)
                continue
            server.settimeout(None)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pairs.add((client, server))
            for source, target, is_request in ((client, server, True), (server, client, False)):
                self._begin(self._pass_on, source, target, (client, server), is_request)

    def _pass_on(
        self,
        source: socket.socket,
        target: socket.socket,
        pair: tuple[socket.socket, socket.socket],
        is_request: bool,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if self._delay:
                    time.sleep(self._delay)
                if is_request and self._cut_after is not None:
                    self._cut_after -= len(data)
                    if self._cut_after < 0:
                        target.sendall(data[: self._cut_after])
                        self._cut_after = None
                        break
                with self._lock:
                    if pair not in self._pairs:
                        break
                    passes = self._requests_pass if is_request else self._answers_pass
                if passes:
                    target.sendall(data)
        with self._lock:
            self._pairs.discard(pair)
        _close(*pair)

    def _begin(self, task: object, *arguments: object) -> None:
        thread = threading.Thread(target=task, args=arguments, daemon=True)  # type: ignore[arg-type] # a method of this class
        self._threads = [running for running in self._threads if running.is_alive()]
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        with suppress(OSError):
            # Wakes the thread that accepts.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(timeout=5)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
