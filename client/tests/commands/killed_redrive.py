"""A redrive that is killed: ``python killed_redrive.py SERVER USER PASSWORD STREAM TOPIC REASON STEP WHEN CALL``."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from typing import Any

from headrace.cli.messages import redriving
from headrace.cli.messages.redrive_ledger import Ledger
from headrace.cli.messages.redriving import Redrive
from headrace.cli.servers.target import Target

CHUNK = 6
"""Letters of a batch."""


def kill_at(step: str, when: str, call: int) -> None:
    """Kill the process before or after a call of a method of the ledger."""
    original, calls = getattr(Ledger, step), itertools.count(1)

    def counted(*arguments: Any, **named: Any) -> Any:
        is_here = next(calls) == call
        if is_here and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = original(*arguments, **named)
        if is_here:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(Ledger, step, counted)


def main(server: str, user: str, password: str, stream: str, topic: str, reason: str, *kill: str) -> None:
    """Send letters in small batches."""
    redriving._CHUNK_MESSAGES = CHUNK  # type: ignore[misc]
    work = Redrive(Target(server, user, password), stream, topic, None, re.compile(reason), None)
    plan = work.plan()
    kill_at(kill[0], kill[1], int(kill[2]))
    work.run(plan, lambda _sent: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
