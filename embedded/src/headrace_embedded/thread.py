"""A server embedded in another program: a test, a notebook, a script."""

from __future__ import annotations

import asyncio
import atexit
import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace_embedded.config import load_config
from headrace_embedded.errors import EmbeddedError
from headrace_embedded.root_user import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headrace_embedded.server import Running, running

# Defaults for a test or a notebook: free ports, one shard, little memory, the credentials that clients try by default.
_DEFAULTS = {
    "tcp.address": "127.0.0.1:0",
    "http.address": "127.0.0.1:0",
    "grpc.address": "127.0.0.1:0",
    "pipelines.address": "127.0.0.1:0",
    "websocket.address": "127.0.0.1:0",
    "quic.enabled": "false",
    "system.sharding.cpu_allocation": "1",
    "system.memory_pool.small": "true",
    "system.memory_pool.size": "128 MiB",
    "root.username": DEFAULT_USERNAME,
    "root.password": DEFAULT_PASSWORD,
}


class Server:
    """An embedded server as a context manager, on a thread of its own.

    The environment is not read, and logging is left to the surrounding program.

        with Server() as server:
            client = headrace_core.Client.connect(server.address)
    """

    def __init__(self, data: str | Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        """Describe a server.

        Args:
            data: The data directory; None for a temporary one that is removed at the end.
            settings: By dotted name, as text: ``{"durability": "fsync", "tcp.address": "127.0.0.1:9000"}``.
        """
        self._data = data
        self._settings = dict(settings or {})
        self._cleanup = ExitStack()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._running: Running | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: asyncio.Task[None] | None = None
        self._is_abandoned = False
        self._stop: asyncio.Event | None = None
        self._process = 0
        # A program that ends without leaving its ``with`` block must not wait for the server for ever: see `_end`.
        self._thread = threading.Thread(target=self._run, name="headrace-embedded", daemon=True)

    @property
    def running(self) -> Running:
        """State of the running server.

        Raises:
            EmbeddedError: The server does not run.
        """
        if self._running is None:
            raise EmbeddedError("the server is not running")
        return self._running

    @property
    def address(self) -> str:
        """``ip:port`` of the binary protocol, as actually bound."""
        return self.running.tcp_address

    @property
    def grpc_address(self) -> str:
        """``ip:port`` of gRPC, as actually bound; empty if not served."""
        return self.running.grpc_address

    @property
    def pipelines_address(self) -> str:
        """``ip:port`` for raw batches, as actually bound; empty if not served."""
        return self.running.pipelines_address

    @property
    def websocket_address(self) -> str:
        """``ip:port`` of the binary protocol over WebSocket, as actually bound; empty if not served."""
        return self.running.websocket_address

    @property
    def http_url(self) -> str:
        """URL of the HTTP API; empty if not served."""
        return self.running.http_url

    @property
    def username(self) -> str:
        """Root's username, as configured."""
        return self._settings.get("root.username", DEFAULT_USERNAME)

    @property
    def password(self) -> str:
        """Root's password, as configured."""
        return self._settings.get("root.password", DEFAULT_PASSWORD)

    def __enter__(self) -> Self:
        """Start, and return when clients can connect.

        Raises:
            SettingsError: A setting is unknown or invalid.
            EmbeddedError: The server cannot start.
        """
        if self._data is None:
            self._data = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="headrace-"))
        self._process = os.getpid()
        self._thread.start()
        try:
            self._ready.wait()
        except BaseException:
            # Interrupted by Ctrl-C, for example: the ``with`` block is never entered, and so never left.
            self._abandon()
            raise
        atexit.register(self._end)
        if self._failure is not None:
            atexit.unregister(self._end)
            self._thread.join()
            self._cleanup.close()
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server: finish requests in flight, flush, close.

        Raises:
            EmbeddedError: A component had failed in a way that the server did not survive.
        """
        atexit.unregister(self._end)
        self._end()
        if self._failure is not None:
            raise self._failure

    def _end(self) -> None:
        """Stop the server and wait for it; at the end of the process, after all threads that may use it."""
        if os.getpid() != self._process:
            # The server belongs to the process that this one was forked from.
            return
        if self._loop is not None and self._stop is not None:
            # The loop is closed already if the server has ended by itself.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._cleanup.close()

    def _abandon(self) -> None:
        """Cancel the start, or stop the server if it has just started, and wait for its end."""
        # The thread sets the loop before it reads this: one of the two sees what the other has written.
        self._is_abandoned = True
        if self._loop is not None and self._serving is not None:
            # The loop is closed already if the start has failed by itself.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._serving.cancel)
        self._thread.join()
        self._cleanup.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - it is raised again by the thread that waits
            self._failure = failure
        finally:
            self._running = None
            self._ready.set()

    async def _serve(self) -> None:
        self._serving, self._loop = asyncio.current_task(), asyncio.get_running_loop()
        if self._is_abandoned:
            return
        settings = _DEFAULTS | self._settings | {"system.path": str(self._data)}
        options = {name: (f"settings[{name!r}]", text) for name, text in settings.items()}
        loaded = load_config(None, {}, options)
        async with running(loaded) as server:
            self._stop = asyncio.Event()
            self._running = server
            self._ready.set()
            await server.until(self._stop)
