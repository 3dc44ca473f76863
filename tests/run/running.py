"""Run suites, and count their tests while they run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.run.suites import NO_TESTS, ROOT, Suite

LOGS: Final = ROOT / ".cache" / "tests"
"""Complete output of each suite of the last run."""
_RESULT: Final = re.compile(rb"^test result: \w+\. (\d+) passed; (\d+) failed", re.MULTILINE)
_TEST: Final = re.compile(rb"^test .+ \.\.\. (?:ok|FAILED)$", re.MULTILINE)


@dataclass(slots=True)
class Counts:
    """Tests of a suite so far."""

    finished: int = 0
    failed: int = 0
    selected: int = 0
    """Number of all tests; 0 if it is not known."""


@dataclass(slots=True)
class Run:
    """One run of a suite."""

    suite: Suite
    began: float = 0.0
    seconds: float = 0.0
    status: int | None = None
    """Exit status; None while it has not ended."""
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _is_ended: bool = False

    @property
    def log(self) -> Path:
        """Output of the suite."""
        return LOGS / f"{self.suite.name}.log"

    @property
    def has_failed(self) -> bool:
        """Return whether the suite has ended with a failure."""
        return self.status not in {None, 0}

    def counts(self) -> Counts:
        """Return the tests so far: of pytest from the file that it writes, of libtest from its output."""
        if self.suite.is_pytest:
            try:
                finished, failed, selected = map(int, self._progress_file.read_text(encoding="ascii").split())
            except (FileNotFoundError, ValueError):
                return Counts()
            return Counts(finished, failed, selected)
        output = self.log.read_bytes() if self.log.exists() else b""
        if self.status is not None:
            results = [(int(passed), int(failed)) for passed, failed in _RESULT.findall(output)]
            return Counts(sum(map(sum, results)), sum(failed for _, failed in results))
        return Counts(len(_TEST.findall(output)))

    def execute(self) -> None:
        """Run the suite to its end."""
        LOGS.mkdir(parents=True, exist_ok=True)
        self._progress_file.unlink(missing_ok=True)
        self.began = time.monotonic()
        status = 0
        with self.log.open("wb") as output:
            for command in self.suite.commands:
                given = (*command, "--progress-file", str(self._progress_file)) if self.suite.is_pytest else command
                status = self._execute(given, output.fileno())
                if self.suite.is_pytest and status == NO_TESTS:
                    status = 0
                if status:
                    break
        self.seconds = time.monotonic() - self.began
        self.status = status

    def end(self) -> None:
        """End the suite and its processes."""
        with self._lock:
            self._is_ended = True
            process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    @property
    def _progress_file(self) -> Path:
        return LOGS / f"{self.suite.name}.progress"

    def _execute(self, command: tuple[str, ...], output: int) -> int:
        with self._lock:
            if self._is_ended:
                return 128 + signal.SIGINT
            self._process = subprocess.Popen(
                command,
                cwd=self.suite.directory,
                env=_environment() | self.suite.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # An interrupt reaches the suites through this program alone, which then reports what has run.
                start_new_session=True,
            )
        return self._process.wait()


def _environment() -> dict[str, str]:
    # Arguments of the `make`, or of the pytest, that has started this program are not those of the suites.
    others = ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    # Colours would be in the log as well.
    return kept | {"NO_COLOR": "1", "CARGO_TERM_COLOR": "never"}


def excerpt(run: Run, lines_max: int = 400) -> str:
    """Return the part of the log that explains a failure."""
    text = run.log.read_text(encoding="utf-8", errors="replace")
    for begin in ("= FAILURES =", "= ERRORS =", "\nfailures:\n", "error: "):
        if (position := text.find(begin)) >= 0:
            text = text[text.rfind("\n", 0, position) + 1 :].lstrip("\n")
            break
    lines = text.splitlines()
    if len(lines) > lines_max:
        left_out = len(lines) - lines_max
        lines = [
            *lines[: lines_max // 2],
            f"... {left_out} lines left out: {run.log.relative_to(ROOT)}",
            *lines[-lines_max // 2 :],
        ]
    return "\n".join(lines)
