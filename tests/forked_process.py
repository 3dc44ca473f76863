"""A process of the product that is forked from one that has imported it: what `subprocess.Popen` offers, sooner."""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.fork_server import NUMBER, Request

_ROOT: Final = Path(__file__).resolve().parents[1]
_IMPORTED: Final = (
    "headrace.embedded.server",
    "headrace_gateway.__main__",
    "headrace_metadata.__main__",
    "headrace_partition_node.__main__",
    "rich.progress",
    "typer",
)
"""Modules that bring the product with them, and what the command line is made of. The command line itself is not among
them: it sets variables, which have to be those of the children."""


class ForkedProcess:
    """`python -m MODULE ARGUMENTS...`, as a child of this process's fork server: see `tests/fork_server.py`.

    Waits raise `subprocess.TimeoutExpired`, exit statuses are those of `subprocess`.
    """

    def __init__(self, module: str, arguments: Sequence[str], *, environment: Mapping[str, str], output: int) -> None:
        """Start it.

        Args:
            module: What is run.
            arguments: Behind the module.
            environment: All of it.
            output: File descriptor of its standard output and error.
        """
        self.args = [sys.executable, "-m", module, *arguments]
        self.returncode: int | None = None
        self._ending = threading.Lock()
        request = Request(module, list(arguments), dict(environment), str(Path.cwd()))
        self._answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nothing = os.open(os.devnull, os.O_RDONLY)
        with theirs:
            _fork_server.ask(request, [nothing, output, output, theirs.fileno()])
        os.close(nothing)
        answer = self._answers.recv(NUMBER.size)
        assert answer, "the fork server has ended: see the output of this run"
        (self.pid,) = NUMBER.unpack(answer)

    def poll(self) -> int | None:
        """The exit status, or none while it runs."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most so many seconds, and return its exit status.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            # In short turns, as one thread at a time can look.
            status = self._status(0.1 if deadline is None else max(0.0, min(0.1, deadline - time.monotonic())))
            if status is not None:
                return status
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self.send_signal(signal.SIGKILL)

    def _status(self, timeout_seconds: float) -> int | None:
        with self._ending:
            if self.returncode is None and select.select([self._answers], [], [], timeout_seconds)[0]:
                with self._answers:
                    answer = self._answers.recv(NUMBER.size)
                # Without an answer the fork server is gone, which ends its children.
                self.returncode = NUMBER.unpack(answer)[0] if answer else -signal.SIGKILL
            return self.returncode


class _ForkServer:
    """The fork server of this process, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Request, descriptors: Sequence[int]) -> None:
        """Send a request."""
        with self._lock:
            if self._socket is None:
                self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", "tests.fork_server", str(theirs.fileno()), *_IMPORTED],
                        cwd=_ROOT,
                        # The gRPC library reads it when it is imported, which is here. The command line sets it for
                        # itself, which is too late for its forks.
                        env={**os.environ, "GRPC_VERBOSITY": "NONE"},
                        stdin=subprocess.DEVNULL,
                        pass_fds=[theirs.fileno()],
                        process_group=0,
                    )
                atexit.register(self._end)
            socket.send_fds(self._socket, [request.to_bytes()], descriptors)

    def _end(self) -> None:
        """End it, and its children."""
        assert self._socket is not None
        assert self._process is not None
        self._socket.close()
        self._process.wait()


_fork_server: Final = _ForkServer()
