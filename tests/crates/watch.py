"""Run a test binary of Rust, and end it when none of its tests ends for too long: `python watch.py BINARY ARGUMENT...`.

Cargo runs this program from the directories of the crates, so it imports nothing of this repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

LIMIT_SECONDS = 300.0
EXIT_STATUS = 124
LIST_SECONDS = 30.0

ENDED = re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. (?:ok|FAILED|ignored\b.*)$")
BEGUN = re.compile(r"^test (?P<name>.+?)(?: - should panic)? \.\.\. $")
SLOW = re.compile(r"^test (?P<name>.+?) has been running for over \d+ seconds$")


class Progress:
    """Tests of a binary, as its output describes them."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.slow: set[str] = set()
        self._rest = ""

    def read(self, text: str) -> bool:
        """Take more of the output. Returns whether a test has ended."""
        before = len(self.ended)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if match := ENDED.match(line):
                self.ended.add(match["name"])
            elif match := SLOW.match(line):
                self.slow.add(match["name"])
        return len(self.ended) > before

    def running(self, listed: list[str], threads: set[str]) -> list[str]:
        """Tests that seem to run: of the `listed` ones, with the names of the binary's `threads`.

        With one thread the harness names the test that it begins; with several those that are slow, after a minute.
        Until then the names of the threads show it, which are those of their tests, cut after 15 bytes.
        """
        if match := BEGUN.match(self._rest):
            return [match["name"]]
        if slow := sorted(self.slow - self.ended):
            return slow
        left = [name for name in listed if name not in self.ended]
        return [name for name in left if name.encode()[:15].decode(errors="replace") in threads] or left


def listed(command: list[str]) -> list[str]:
    """Names of the tests that the command would run; none if it fails."""
    try:
        result = subprocess.run(
            [*command, "--list", "--format", "terse"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.removesuffix(": test") for line in result.stdout.splitlines() if line.endswith(": test")]


def threads_of(pid: int) -> set[str]:
    """Names of the threads of a process, on systems with `/proc`."""
    names = set()
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            names.add(path.read_text(errors="replace").rstrip("\n"))
    return names


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a binary and whatever it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def watch(command: list[str], limit_seconds: float) -> int:
    """Run the command, and pass its output on as it comes. Returns its exit status, or `EXIT_STATUS` at the limit."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0)
    if process.stdout is None:
        raise AssertionError("its output is a pipe")
    progress = Progress()
    deadline = time.monotonic() + limit_seconds
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    # A binary may close its output and go on.
                    return _status(process.wait(max(0.1, deadline - time.monotonic())))
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
                if progress.read(chunk.decode(errors="replace")):
                    deadline = time.monotonic() + limit_seconds
    except subprocess.TimeoutExpired:
        pass
    except BaseException:
        end(process)
        raise
    threads = threads_of(process.pid)
    end(process)
    names = progress.running(listed(command), threads)
    sys.stdout.write(
        f"\ntime limit: no test of {command[0]} has ended for {limit_seconds:g} s, it was killed; running:\n"
    )
    sys.stdout.write("".join(f"    {name}\n" for name in names))
    sys.stdout.flush()
    return EXIT_STATUS


def _status(returncode: int) -> int:
    """Exit status as of a shell."""
    return 128 - returncode if returncode < 0 else returncode


def main() -> int:
    """Watch the binary that the arguments name. Returns the exit status."""

    def interrupt(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    return watch(sys.argv[1:], float(os.environ.get("CRATE_TEST_SECONDS", LIMIT_SECONDS)))


if __name__ == "__main__":
    sys.exit(main())
