"""The fork server: a process that has imported the product, and becomes one of its processes by forking.

Importing a server takes most of a second of CPU time, and tests start servers by the hundred. Each worker of a test run
has one fork server. It imports everything once, has no threads, and answers each request on its socket with a child of
its own that runs `python -m MODULE ARGUMENTS...` from there on: with the environment, the working folder and the output
of the request, in a process group of its own, and with an end of its own.

The protocol, on a `SOCK_SEQPACKET` socket: a request is a JSON object with the file descriptor of the output and a
socket attached; the child's pid, and later its exit status, are written to that socket.
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
from dataclasses import dataclass
from importlib import import_module
from typing import Final, NoReturn

IMPORTED: Final = (
    "headrace.embedded.server",
    "headrace_gateway.__main__",
    "headrace_metadata.__main__",
    "headrace_partition_node.__main__",
    "rich.progress",
    "typer",
)
"""Modules that bring the product with them, and what the command line is made of. The command line itself is not among
them: it sets variables, which have to be those of the children."""
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


def serve(requests: socket.socket) -> Request:
    """Answer requests until the other end of the socket is closed, which ends the process and all of its children.

    Returns in each child, with the request that it is for.
    """
    children: dict[int, tuple[int, socket.socket]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is requests:
                    data, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 2)
                    if not data:
                        _end(children)
                    output, answers = descriptors[0], socket.socket(fileno=descriptors[1])
                    pid = os.fork()
                    if pid == 0:
                        request = Request.from_bytes(data)
                        _become(request, output)
                        for inherited in (requests, answers, *(entry[1] for entry in children.values())):
                            inherited.close()
                        for inherited_pidfd in children:
                            os.close(inherited_pidfd)
                        return request
                    os.close(output)
                    answers.sendall(NUMBER.pack(pid))
                    pidfd = os.pidfd_open(pid)
                    children[pidfd] = pid, answers
                    selector.register(pidfd, selectors.EVENT_READ)
                else:
                    pidfd = key.fd
                    selector.unregister(pidfd)
                    pid, answers = children.pop(pidfd)
                    _, status = os.waitpid(pid, 0)
                    os.close(pidfd)
                    # The worker may have stopped waiting for it.
                    with answers, contextlib.suppress(BrokenPipeError):
                        answers.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(request: Request, output: int) -> None:
    """Make the forked process look like one that was started for the request."""
    # Ctrl-C in the terminal is for the tests, which then stop their servers.
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [request.module, *request.arguments]


def _end(children: dict[int, tuple[int, socket.socket]]) -> NoReturn:
    for pidfd, (pid, _) in children.items():
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.waitpid(pid, 0)
    sys.exit(0)


def main() -> None:
    """Import, serve on the inherited socket, and in a child run the module."""
    # The worker decides when it is over, also when somebody presses Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in IMPORTED:
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
