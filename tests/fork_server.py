"""A fork server: a process that has imported what others need, and becomes one of them by forking.

Importing a server takes most of a second of CPU time, and tests start servers by the hundred; Spark starts a Python
for each query of a stream. A fork server imports everything once, has no threads of its own, and answers each request
with a child that runs `python -m MODULE ARGUMENTS...` from there on: with the environment, the working folder and the
standard streams of the request, in a process group of its own, and with an end of its own.

The protocol, on `SOCK_SEQPACKET` sockets: a request is a JSON object with the standard streams as file descriptors; the
child's pid, and later its exit status, are the answers. `python -m tests.fork_server FD MODULE...` imports the modules
and serves the socket FD. If it listens, each connection is for one request and gets its answers, and closing it asks
the child to end. If it is connected, requests have a socket for the answers as a fourth descriptor, and closing it ends
everything.
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
"""Of a request: an environment and a command line."""
NUMBER: Final = struct.Struct("=i")
"""A pid, or an exit status as `subprocess` has it: negative for a signal."""


@dataclass(frozen=True, slots=True)
class Request:
    """A process that is wanted."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str

    def to_bytes(self) -> bytes:
        """As it goes over the socket."""
        return json.dumps([self.module, self.arguments, self.environment, self.folder]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """The reverse."""
        return cls(*json.loads(data))


class _Children:
    """Those that run, each with its process as a file descriptor and the socket for its answers."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._found: dict[int, tuple[int, socket.socket]] = {}

    def add(self, pid: int, answers: socket.socket, *, may_close: bool) -> None:
        """Take one in, and tell its pid; it is asked to end when its connection is closed, if that may be."""
        pidfd = os.pidfd_open(pid)
        self._found[pidfd] = pid, answers
        self._selector.register(pidfd, selectors.EVENT_READ)
        with contextlib.suppress(BrokenPipeError):
            answers.sendall(NUMBER.pack(pid))
        if may_close:
            self._selector.register(answers, selectors.EVENT_READ, pidfd)

    def take(self, key: selectors.SelectorKey) -> None:
        """Act on what happened to one: it has ended, or its connection was closed."""
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
        # The worker may have stopped waiting for it.
        with answers, contextlib.suppress(BrokenPipeError):
            answers.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))

    def forget(self) -> None:
        """In a child: those of the fork server are not its own."""
        for pidfd, (_, answers) in self._found.items():
            os.close(pidfd)
            answers.close()

    def end(self) -> NoReturn:
        """Kill all of them, and end."""
        for pidfd, (pid, _) in self._found.items():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.waitpid(pid, 0)
        sys.exit(0)


def serve(requests: socket.socket) -> Request:
    """Answer requests until the other end of the socket is closed, which ends the process and all of its children.

    Returns in each child, with the request that it is for.
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
    """Make the forked process look like one that was started for the request."""
    # Ctrl-C in the terminal is for the tests, which then stop their servers.
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [request.module, *request.arguments]


def main() -> None:
    """Import, serve on the inherited socket, and in a child run the module."""
    # The worker decides when it is over, also when somebody presses Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in sys.argv[2:]:
        import_module(module)
        if module.endswith(".__main__"):
            # It runs in the children, under another name.
            del sys.modules[module]
    # What is there now is never garbage: no collection touches it, in this process or in its children.
    gc.collect()
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
