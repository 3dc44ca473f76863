"""A TCP proxy that delays, stalls and cuts connections."""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_PIECE: Final = 64 * 1024
_TICK_SECONDS: Final = 0.05


class Proxy:
    """Forwards connections to a server, on threads of its own. All settings may be changed at any time."""

    def __init__(self, target: str, *, seed: int = 0) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.delay_seconds = 0.0
        """Delay of each piece, in both directions."""
        self.accepts = True
        self._cut_after: int | None = None
        self._cut_answers_after: int | None = None
        self._content: bytes | None = None
        self._answering: tuple[socket.socket, socket.socket] | None = None
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._is_stalled = threading.Event()
        self._has_ended = threading.Event()
        self.cuts = 0
        """Connections that were cut so far."""
        self._threads = [threading.Thread(target=self._accept, name="proxy")]
        self._threads[0].start()

    def cut_after(self, requests: int | None = None, answers: int | None = None) -> None:
        """Cut the connection that passes so many bytes of requests, or of answers, from now on."""
        with self._lock:
            self._cut_after, self._cut_answers_after = requests, answers

    def cut_answer_to(self, content: bytes) -> None:
        """Cut the connection that passes a request with this content from now on, in place of the next answer.

        Clients ask for other things of their own accord, whose answers would use up `cut_after`.
        """
        with self._lock:
            self._content = content

    def cut(self) -> None:
        """Cut all connections."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._close(pair)

    def stall(self, is_stalled: bool = True) -> None:
        """Forward nothing until it is switched off."""
        (self._is_stalled.set if is_stalled else self._is_stalled.clear)()

    @property
    def connections(self) -> int:
        """Number of connections."""
        return len(self._pairs)

    def _accept(self) -> None:
        self._listener.settimeout(_TICK_SECONDS)
        while not self._has_ended.is_set():
            with suppress(TimeoutError):
                client, _ = self._listener.accept()
                self._open(client)

    def _open(self, client: socket.socket) -> None:
        if not self.accepts:
            client.close()
            return
        try:
            server = socket.create_connection(self._target, 5)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.add((client, server))
        thread = threading.Thread(target=self._forward, args=(client, server), name="proxy")
        self._threads = [*(found for found in self._threads if found.is_alive()), thread]
        thread.start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        pair = (client, server)
        with suppress(OSError, ValueError):
            while not self._has_ended.is_set():
                readable, _, _ = select.select(pair, [], [], _TICK_SECONDS)
                if self._is_stalled.is_set():
                    self._has_ended.wait(_TICK_SECONDS)
                    continue
                for source in readable:
                    data = source.recv(_PIECE)
                    if not data or not self._pass(data, source, pair):
                        return self._close(pair)
        return self._close(pair)

    def _pass(self, data: bytes, source: socket.socket, pair: tuple[socket.socket, socket.socket]) -> bool:
        is_request = source is pair[0]
        if self.delay_seconds:
            time.sleep(self.delay_seconds * self._random.random())
        with self._lock:
            if is_request and self._content is not None and self._content in data:
                self._content, self._answering = None, pair
            elif not is_request and self._answering is pair:
                self._answering = None
                return False
            left = self._cut_after if is_request else self._cut_answers_after
            is_last = left is not None and left < len(data)
            if is_last:
                data = data[:left]
                self._cut_after = self._cut_answers_after = None
            elif left is not None and is_request:
                self._cut_after = left - len(data)
            elif left is not None:
                self._cut_answers_after = left - len(data)
        pair[is_request].sendall(data)
        return not is_last

    def _close(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.remove(pair)
            self.cuts += 1
        for end in pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Cut all connections, and end the threads."""
        self._has_ended.set()
        self.cut()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
