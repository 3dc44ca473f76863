"""SPK-1: a driver that uses this package may start its JVM, which PySpark does with a fork, at any time.

Where gRPC prepares forks, about 1 of 100 children of a process that has closed channels is ended by a thread of the
library before its program begins, and PySpark says that the Java gateway process exited.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

_PROGRAM: Final = """
import socket, subprocess, threading
{imported}
import grpc

with socket.create_server(("127.0.0.1", 0)) as silent:
    channel = grpc.insecure_channel("127.0.0.1:%d" % silent.getsockname()[1])
    call = channel.unary_unary("/no.Service/Call").future(b"", wait_for_ready=True)
    threading.Thread(target=call.code, daemon=True).start()
    with silent.accept()[0]:
        # On a busy machine the thread that waits may enter the library only after some forks.
        for _ in range(100):
            # With a function that runs before the program, Python forks, as PySpark has it do.
            subprocess.run(["true"], preexec_fn=lambda: None)
        call.cancel()
"""


def reported(imported: str) -> str:
    """Return what gRPC says of a fork during a call, in a program that imports this as well."""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    command = [sys.executable, "-c", _PROGRAM.format(imported=imported)]
    found = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=True, timeout=60)
    return found.stderr


def test_grpc_does_not_prepare_forks_of_a_driver() -> None:
    """gRPC reports a fork during a call where it prepares forks, which it does by default."""
    assert "fork() handlers" in reported("")
    assert reported("import pyspark_headrace.cluster.runtime") == ""
