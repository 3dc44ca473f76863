"""Run the suites in turn, each for its share of the time."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.soak.journal import Entry, Journal, Status, repeat_command
from tests.soak.suites import ROOT, Round, Suite

_OVERRUN_SECONDS: Final = 300.0
"""Seconds by which a round may exceed its planned duration before it counts as hanging."""
_END_SECONDS: Final = 15.0
_SEED_MAX: Final = 2**31


class Soak:
    """State of one soak run."""

    def __init__(
        self, suites: Sequence[Suite], journal: Journal, directory: Path, *, seconds: float, say: Callable[[str], None]
    ) -> None:
        """Describe the run.

        Args:
            suites: Suites that can run on this machine.
            journal: History of this and earlier runs; it decides which suite is next.
            directory: Directory of the logs.
            seconds: Duration of the run.
            say: Called with progress lines for the user.
        """
        self._suites = list(suites)
        self._journal = journal
        self._directory = directory
        self._deadline = time.monotonic() + seconds
        self._say = say
        self._random = random.SystemRandom()
        self._is_stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End the current round and begin no other. Safe in a signal handler."""
        self._is_stopped = True
        if self._process is not None:
            _signal(self._process, signal.SIGTERM)

    def run(self) -> list[Entry]:
        """Run rounds until the time is over and return their entries."""
        done: list[Entry] = []
        while not self._is_stopped and (suite := self._next()) is not None:
            seconds = int(min(suite.seconds, self._remaining()))
            entry = self._round(suite, self._random.randrange(_SEED_MAX), seconds)
            self._journal.add(entry)
            done.append(entry)
        return done

    def _remaining(self) -> float:
        return self._deadline - time.monotonic()

    def _next(self) -> Suite | None:
        """Return the suite that has had the least of its share, among those whose minimum round still fits."""
        remaining = self._remaining()
        fitting = [suite for suite in self._suites if suite.seconds_min <= remaining]
        return min(fitting, key=lambda suite: self._journal.seconds_of(suite.name) / suite.share, default=None)

    def _round(self, suite: Suite, seed: int, seconds: int) -> Entry:
        planned = suite.round_of(seed, seconds)
        log = self._directory / f"{suite.name}-{seed}.log"
        self._say(f"{suite.name}: seed {seed}, about {seconds} s")
        began = time.monotonic()
        status = self._outcome(planned, log, seconds)
        took = time.monotonic() - began
        self._say(f"{suite.name}: {status} after {took:.0f} s")
        if status == "passed":
            log.unlink()
        return Entry(
            suite=suite.name,
            seed=seed,
            seconds=round(took, 1),
            status=status,
            ended_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            repeat=repeat_command(planned.command, dict(planned.environment), str(planned.directory.relative_to(ROOT))),
            log=str(log),
        )

    def _outcome(self, planned: Round, log: Path, seconds: int) -> Status:
        with log.open("wb") as output:
            # Start the round in a process group of its own, so that its children end with it.
            self._process = process = subprocess.Popen(
                planned.command,
                cwd=planned.directory,
                env=os.environ | dict(planned.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            # Enforce the end of the whole run; a round that hangs is a finding.
            overrun = seconds + _OVERRUN_SECONDS
            timeout = min(overrun, max(0.0, self._remaining()) + _END_SECONDS)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                _end(process)
                if timeout < overrun:
                    return "cut off"
                output.write(f"\nit hung: killed after {timeout:.0f} s\n".encode())
                return "failed"
            finally:
                self._process = None
        if self._is_stopped:
            return "cut off"
        return "passed" if code == 0 else "failed"


def _end(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    # Kill processes that ignored the first signal.
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
