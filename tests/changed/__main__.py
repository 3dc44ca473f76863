"""Run the tests that a change can reach: `make test-changed`, or since a commit with BASE=main.

A change is the set of files that differ from the base, including untracked files. A change to a file on which anything
may depend, such as the Makefile or a lock file, selects everything: the program reports so and runs `make test`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.changed.modules import Files
from tests.changed.selection import ROOT, Selection, select


def main() -> int:
    """Select tests, print the selection and run it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.changed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="HEAD", help="the commit that it is compared with (HEAD)")
    parser.add_argument("--list", action="store_true", help="say what would run, and stop")
    options = parser.parse_args()
    changed = {
        *_git("diff", "--name-only", "--no-renames", options.base),
        *_git("ls-files", "--others", "--exclude-standard"),
    }
    if not changed:
        sys.stdout.write(f"nothing differs from {options.base}\n")
        return 0
    selection = select(map(Path, changed), Files(ROOT, map(Path, _existing())))
    sys.stdout.write(_described(selection, len(changed)))
    sys.stdout.flush()
    return 0 if options.list else _run(selection)


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def _existing() -> list[str]:
    return [name for name in _git("ls-files", "--cached", "--others", "--exclude-standard") if (ROOT / name).is_file()]


def _described(selection: Selection, changed: int) -> str:
    if selection.is_everything:
        return f"{changed} files have changed; anything may depend on {selection.is_everything}: make test\n"
    lines = [
        f"{changed} files have changed, which reach",
        f"  {len(selection.crates)} crates: {' '.join(selection.crates) or 'none'}",
        f"  {len(selection.tests)} files of tests, and {len(selection.spark_tests)} with Spark",
        *(f"  {test}" for test in (*selection.tests, *selection.spark_tests)),
        *(f"note: {note}" for note in selection.notes),
    ]
    return "\n".join(lines) + "\n"


def _run(selection: Selection) -> int:
    if selection.is_everything:
        return _make("test")
    steps: list[list[str]] = []
    if selection.crates:
        steps.append(["test-rust", "CRATES=" + " ".join(f"--package {crate}" for crate in selection.crates)])
    if selection.is_simulated:
        steps += [["sim"], ["sim-machine"]]
    if selection.tests:
        steps.append(["test-python", f"ARGS={' '.join(selection.tests)}"])
    if selection.spark_tests:
        steps.append(["test-spark", f"SPARK_TESTS={' '.join(selection.spark_tests)}"])
    return next((status for step in steps if (status := _make(*step))), 0)


def _make(*arguments: str) -> int:
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=ROOT, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
