"""A fork server: a process that has imported common modules and forks children that start without importing them.

Importing a server takes most of a second of CPU time, and tests start servers by the hundred; Spark starts a Python for
each query of a stream. A fork server imports everything once, has no threads (but those of allocators, which start
again in a forked process), and answers each request with a child that runs `python -m MODULE ARGUMENTS...`, with the
environment, the working directory and the standard streams of the request, and in its own process group.

The protocol uses `SOCK_SEQPACKET` sockets. A request is a JSON object with the standard streams as file descriptors.
The answers are the child's pid and, later, its exit status. `python -m tests.fork_server FD MODULE...` imports the
modules and serves the socket FD. If FD is a listening socket, each connection carries one request and its answers, and
closing the connection terminates the child. If FD is a connected socket, requests pass a socket for the answers as a
fourth descriptor, and closing FD ends the server and all children.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, NoReturn

REQUEST_BYTES_MAX: Final = 1 << 17
"""Maximum size of a request: an environment and a command line."""
NUMBER: Final = struct.Struct("=i")
"""A pid, or an exit status as `subprocess` has it: negative for a signal."""


@dataclass(frozen=True, slots=True)
class Request:
    """Request to start a process."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    directory: str

    def to_bytes(self) -> bytes:
        """Encode the request for the socket."""
        return json.dumps([self.module, self.arguments, self.environment, self.directory]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Decode a request."""
        return cls(*json.loads(data))


class _Children:
    """Running children, each with its pidfd and the socket for its answers."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._found: dict[int, tuple[int, socket.socket]] = {}

    def add(self, pid: int, answers: socket.socket, *, may_close: bool) -> None:
        """Register a child and send its pid. With `may_close`, closing the connection terminates the child."""
        pidfd = os.pidfd_open(pid)
        self._found[pidfd] = pid, answers
        self._selector.register(pidfd, selectors.EVENT_READ)
        with contextlib.suppress(BrokenPipeError):
            answers.sendall(NUMBER.pack(pid))
        if may_close:
            self._selector.register(answers, selectors.EVENT_READ, pidfd)

    def take(self, key: selectors.SelectorKey) -> None:
        """Handle an event of one child: the child has ended, or its connection was closed."""
        if key.data is not None:
            self._selector.unregister(key.fileobj)
            if key.data in self._found:
                signal.pidfd_send_signal(key.data, signal.SIGTERM)
            return
        self._selector.unregister(key.fd)
        pid, answers = self._found.pop(key.fd)
        _, status = os.waitpid(pid, 0)
        os.close(key.fd)
        with contextlib.suppress(KeyError):
            self._selector.unregister(answers)
        # The worker may have stopped waiting for the answer.
        with answers, contextlib.suppress(BrokenPipeError):
            answers.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))

    def forget(self) -> None:
        """Close the descriptors of all siblings; called in a child."""
        for pidfd, (_, answers) in self._found.items():
            os.close(pidfd)
            answers.close()

    def end(self) -> NoReturn:
        """Kill all children and exit."""
        for pidfd, (pid, _) in self._found.items():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.waitpid(pid, 0)
        sys.exit(0)


def serve(requests: socket.socket) -> Request:
    """Answer requests until the other end of the socket is closed, which ends this process and all of its children.

    Returns only in a child, with the child's request.
    """
    listens = requests.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    with selectors.DefaultSelector() as selector:
        children = _Children(selector)
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    children.take(key)
                    continue
                connection = requests.accept()[0] if listens else requests
                data, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, 4)
                if not data and not listens:
                    children.end()
                if not data:
                    connection.close()
                    continue
                streams = descriptors[:3]
                answers = connection if listens else socket.socket(fileno=descriptors[3])
                pid = os.fork()
                if pid == 0:
                    request = Request.from_bytes(data)
                    children.forget()
                    answers.close()
                    requests.close()
                    _become(request, streams)
                    return request
                for stream in streams:
                    os.close(stream)
                children.add(pid, answers, may_close=listens)


def _become(request: Request, streams: Sequence[int]) -> None:
    """Set up the forked process as if it had been started for the request."""
    # Ctrl-C in the terminal reaches only the tests, which stop their servers themselves.
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [request.module, *request.arguments]


def main() -> None:
    """Import the modules, serve the inherited socket, and run the module in each child."""
    # The worker ends this process, even on Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in sys.argv[2:]:
        import_module(module)
        if module.endswith(".__main__"):
            # The module runs in the children under another name.
            del sys.modules[module]
    # Exempt all existing objects from garbage collection, here and in the children: they stay shared copy-on-write.
    gc.collect()
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
