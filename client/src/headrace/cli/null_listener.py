"""The listener that reads and discards, as a process of its own, so that its CPU time is counted apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace_core import CoreError

_PROGRAM = """\
import sys, headrace_core
try:
    headrace_core.null_listener(
        "127.0.0.1:0", int(sys.argv[1]), int(sys.argv[2]), lambda address: print(address, flush=True)
    )
except KeyboardInterrupt:
    pass
"""


@contextmanager
def null_listener(*, message_size_bytes: int, messages_per_poll: int) -> Iterator[tuple[str, int]]:
    """Run it for the length of a ``with`` block; yields its address and its process.

    Args:
        message_size_bytes: Payload of the messages that it answers polls with.
        messages_per_poll: The most of them in one answer.
    """
    command = [sys.executable, "-c", _PROGRAM, str(message_size_bytes), str(messages_per_poll)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        try:
            address = process.stdout.readline().strip() if process.stdout else ""
            if not address:
                raise CoreError("the null listener did not start")
            yield address, process.pid
        finally:
            process.terminate()
