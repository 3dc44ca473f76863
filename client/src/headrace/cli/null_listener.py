"""Null listener, which reads and discards; a separate process, so that its CPU time is measured separately."""

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
    """Run the listener for the duration of a ``with`` block; yield its address and its process.

    Args:
        message_size_bytes: Payload size of the messages in poll answers.
        messages_per_poll: Maximum number of messages in one answer.
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
