"""Run the tests and print one verdict: `make test`, `make test-all`, `make test-rest`.

The first line says what will run. While it runs there is a line of progress for each suite, and at the end a table.
The output of each suite is in .cache/tests; what explains a failure is printed as well. A suite that fails does not
end the run.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final

from tests.run import expected
from tests.run.running import Run, excerpt
from tests.run.suites import Choice, Suite, Tier, stages

PROGRESS_SECONDS: Final = 15.0
"""Time between two lines of progress of a suite."""
_COMMANDS: Final[dict[Tier, str]] = {"quick": "make test", "all": "make test-all", "long": "make test-rest"}


def main(arguments: Sequence[str]) -> int:
    """Run the suites and return 0 if all of them have passed."""
    given = _parser().parse_args(arguments)
    choice = Choice(given.tier, given.seed, given.part, tuple(given.only))
    chosen = stages(choice)
    runs = {suite.name: Run(suite) for stage in chosen for chain in stage for suite in chain}
    if not runs:
        print(f"no suite is called {' or '.join(given.only)}", file=sys.stderr)
        return 2
    sizes = expected.read(choice.tier)
    if not given.announced:
        print(_announcement(choice, list(runs.values()), sizes), flush=True)
    if given.announce:
        return 0
    verdict = _Verdict(runs)
    signal.signal(signal.SIGINT, verdict.interrupted)
    signal.signal(signal.SIGTERM, verdict.interrupted)
    began = time.monotonic()
    for stage in chosen:
        if not verdict.is_interrupted:
            verdict.run(stage)
    ended = [run for run in runs.values() if run.status is not None]
    for run in ended:
        if run.has_failed:
            print(f"\n--- {run.suite.name} has failed\n{excerpt(run)}\n--- repeat it: {run.suite.shown()}", flush=True)
    print(_table(list(runs.values()), time.monotonic() - began))
    if verdict.is_interrupted or any(run.has_failed for run in ended):
        failed = ", ".join(run.suite.name for run in runs.values() if run.status != 0)
        print(f"NOT PASSED: {failed}; {_repeated(choice)} repeats the choices of this run")
        return 130 if verdict.is_interrupted else 1
    if given.record:
        expected.record(choice.tier, ended)
    elif not choice.part and (names := expected.outdated(sizes, ended)):
        print(f"the recorded sizes of {', '.join(names)} are not current: python -m tests.run {choice.tier} --record")
    print(f"passed with TEST_SEED={choice.seed}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tier", choices=["quick", "long", "all"], help="quick, the rest, or everything: tests/tiers.py")
    parser.add_argument("--seed", required=True, help="seed of property tests, simulations and faults")
    parser.add_argument(
        "--part", default="", metavar="I/N", help="one of N parts of the long tests; the seed forms them"
    )
    parser.add_argument("--only", action="append", default=[], metavar="SUITE", help="a suite to run, once or more")
    parser.add_argument("--record", action="store_true", help="keep numbers of tests and durations for the first line")
    parser.add_argument("--announce", action="store_true", help="print the first line alone, before the set-up")
    parser.add_argument("--announced", action="store_true", help="leave the first line out")
    return parser


def _repeated(choice: Choice) -> str:
    """Return the command that repeats a run."""
    part = f" PART={choice.part}" if choice.part else ""
    return f"{_COMMANDS[choice.tier]} TEST_SEED={choice.seed}{part}"


def _announcement(choice: Choice, runs: list[Run], sizes: expected.Sizes) -> str:
    names = ", ".join(run.suite.name for run in runs)
    tests = sum(sizes[run.suite.name]["tests"] for run in runs if run.suite.name in sizes)
    # Suites of a stage run at a time: the longest chain decides.
    seconds = sum(
        max(sum(sizes[suite.name]["seconds"] for suite in chain if suite.name in sizes) for chain in stage)
        for stage in stages(choice)
    )
    part = f"; of the long tests, part {choice.part}, which the seed forms" if choice.part else ""
    size = (
        f"about {tests:,} tests, about {max(1, round(seconds / 60))} minutes on two idle cores"
        if tests
        else "sizes unknown"
    )
    return (
        f"{_COMMANDS[choice.tier]}: {len(runs)} suites ({names}); {size}{part}\n"
        f"{_repeated(choice)} repeats the choices of this run; outputs are in .cache/tests"
    )


class _Verdict:
    """Suites that run, with their lines of progress."""

    def __init__(self, runs: dict[str, Run]) -> None:
        self._runs = runs
        self.is_interrupted = False

    def interrupted(self, number: int, frame: FrameType | None) -> None:
        """End everything at a signal."""
        del number, frame
        self.is_interrupted = True
        threading.Thread(target=lambda: [run.end() for run in self._runs.values()]).start()

    def run(self, stage: list[list[Suite]]) -> None:
        """Run the chains of a stage at a time, to the end of all of them."""
        threads = [threading.Thread(target=self._run_chain, args=(chain,)) for chain in stage]
        for thread in threads:
            thread.start()
        shown = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.2)
            if time.monotonic() - shown >= PROGRESS_SECONDS:
                shown = time.monotonic()
                for run in self._runs.values():
                    if run.began and run.status is None:
                        print(_progress(run), flush=True)

    def _run_chain(self, chain: list[Suite]) -> None:
        for suite in chain:
            if self.is_interrupted:
                return
            run = self._runs[suite.name]
            print(f"{suite.name:<15} begins: {suite.shows}", flush=True)
            run.execute()
            print(_progress(run), flush=True)


def _progress(run: Run) -> str:
    counts, seconds = run.counts(), time.monotonic() - run.began if run.status is None else run.seconds
    of_all = f" of {counts.selected:,}" if counts.selected and run.status is None else ""
    tests = f"{counts.finished:,}{of_all} tests" if counts.finished or counts.selected else ""
    failed = f", {counts.failed} failed" if counts.failed else ""
    outcome = "" if run.status is None else _outcome(run)
    return f"{run.suite.name:<15} {seconds:5.0f} s  {tests}{failed} {outcome}".rstrip()


def _outcome(run: Run) -> str:
    if run.status is None:
        return "not run"
    return "passed" if run.status == 0 else f"FAILED (status {run.status})"


def _table(runs: list[Run], seconds: float) -> str:
    lines = ["", f"{'suite':<15} {'tests':>7} {'failed':>7} {'seconds':>8}  outcome"]
    for run in runs:
        counts = run.counts()
        lines.append(
            f"{run.suite.name:<15} {counts.finished or '':>7} {counts.failed:>7} {run.seconds:>8.0f}  {_outcome(run)}"
        )
    lines.append(f"{'all':<15} {sum(run.counts().finished for run in runs):>7} {'':>7} {seconds:>8.0f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
