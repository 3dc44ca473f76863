"""A process of the product, forked from one that has imported it: a `subprocess.Popen` that starts faster."""

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
    "headrace_embedded.server",
    "headrace_connectors.process",
    "headrace_gateway.__main__",
    "headrace_metadata.__main__",
    "headrace_partition_node.__main__",
    # Connectors that tests start by the hundred, with psycopg and pyarrow.
    "headrace_connectors.codecs.plain",
    "headrace_connectors.sinks.delta.sink",
    "headrace_connectors.sinks.opensearch",
    "headrace_connectors.sinks.parquet.sink",
    "headrace_connectors.sinks.postgres.sink",
    "headrace_connectors.sinks.sqlite.sink",
    "headrace_connectors.sources.postgres.cdc",
    "rich._emoji_codes",
    "rich.progress",
    "click",
)
"""Modules that import the product and the dependencies of the command line. The command line itself is excluded: it
sets environment variables, which must be those of the children.
"""


class ForkedProcess:
    """`python -m MODULE ARGUMENTS...` as a child of this process's fork server: see `tests/fork_server.py`.

    Waits raise `subprocess.TimeoutExpired`, and exit statuses follow `subprocess`.
    """

    def __init__(self, module: str, arguments: Sequence[str], *, environment: Mapping[str, str], output: int) -> None:
        """Start the process.

        Args:
            module: Module to run.
            arguments: Arguments after the module.
            environment: Complete environment.
            output: File descriptor of standard output and standard error.
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
        """Return the exit status, or `None` while the process runs."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end for at most `timeout` seconds and return the exit status.

        Raises:
            subprocess.TimeoutExpired: The process is still running.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            # Short waits: only one thread at a time can read the status.
            status = self._status(0.1 if deadline is None else max(0.0, min(0.1, deadline - time.monotonic())))
            if status is not None:
                return status
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Terminate the process (SIGTERM)."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        self.send_signal(signal.SIGKILL)

    def _status(self, timeout_seconds: float) -> int | None:
        with self._ending:
            if self.returncode is None and select.select([self._answers], [], [], timeout_seconds)[0]:
                with self._answers:
                    answer = self._answers.recv(NUMBER.size)
                # No answer: the fork server has ended, and its children with it.
                self.returncode = NUMBER.unpack(answer)[0] if answer else -signal.SIGKILL
            return self.returncode


class _ForkServer:
    """The fork server of this process, started on first use."""

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
                        # The gRPC library reads the variable on import, which happens here. The command line sets it
                        # too late for forked children. numpy's threads would not be forked, and cost time.
                        env={**os.environ, "GRPC_VERBOSITY": "NONE", "OPENBLAS_NUM_THREADS": "1"},
                        stdin=subprocess.DEVNULL,
                        pass_fds=[theirs.fileno()],
                        process_group=0,
                    )
                atexit.register(self._end)
            socket.send_fds(self._socket, [request.to_bytes()], descriptors)

    def _end(self) -> None:
        """End the fork server and its children."""
        assert self._socket is not None
        assert self._process is not None
        self._socket.close()
        self._process.wait()


_fork_server: Final = _ForkServer()
