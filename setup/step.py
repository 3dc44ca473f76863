"""Run one step of a set-up and show that it goes on.

    python setup/step.py "3 of 5: the native module" -- command argument...

The output of the command is passed on line by line. When it prints nothing for some seconds, a line says for how long
the step has run. The last line has the duration. The exit status is that of the command.
"""

from __future__ import annotations

import selectors
import signal
import subprocess
import sys
import time
from typing import Final

SILENCE_SECONDS: Final = 5.0
"""Time without output after which a line is printed: readers begin to doubt a program after about ten seconds."""


def run(name: str, command: list[str], silence_seconds: float = SILENCE_SECONDS) -> int:
    """Run a command as a step, and return its exit status; 128 and more for a signal, as in a shell."""
    began = time.monotonic()
    print(f"[{name}]", flush=True)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # The terminal interrupts the command as well, which then ends by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate())
    _pass_on(process, began, silence_seconds)
    status = process.wait()
    seconds = time.monotonic() - began
    if status:
        print(f"[{name}] failed after {seconds:.0f} s with status {status}: {' '.join(command)}", flush=True)
    else:
        print(f"[{name}] {seconds:.0f} s", flush=True)
    return status if status >= 0 else 128 - status


def _pass_on(process: subprocess.Popen[bytes], began: float, silence_seconds: float) -> None:
    if process.stdout is None:
        raise ValueError("the output of the command is not a pipe")
    last = ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        pending = b""
        while True:
            if not selector.select(timeout=silence_seconds):
                doing = f", after: {last}" if last else ""
                print(f"  ... {time.monotonic() - began:.0f} s{doing}", flush=True)
                continue
            # Unbuffered, so that a part of a line is not waited for.
            data = process.stdout.read1(65536)  # type: ignore[attr-defined]
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                last = _show(line) or last
    if pending:
        _show(pending)


def _show(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip()
    if text:
        print(f"  {text}", flush=True)
    return text.strip()


def main(arguments: list[str]) -> int:
    """Read the command line."""
    if len(arguments) < 3 or arguments[1] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return run(arguments[0], arguments[2:])
    except OSError as error:
        print(f"[{arguments[0]}] {arguments[2]} cannot be started: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
