"""Many rounds of faults on the metadata service and on the data plane, outside the test suite."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.faults.metadata.rounds import run_rounds as run_metadata_rounds
from tests.faults.power.rounds import run_rounds as run_data_rounds
from tests.lossy_disk import DISK_IS_THERE, lossy_disk

_PARTS = ("metadata", "data")


def main() -> int:
    """Run the rounds and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="of each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=12, help="of the metadata service, at a time")
    parser.add_argument("--only", choices=_PARTS, help="one part; both by default")
    parser.add_argument("--directory", type=Path, help="directory for data and logs; a temporary one by default")
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="headrace-faults-"))
    if not DISK_IS_THERE:
        sys.stdout.write(
            "there are no file systems in user space here: no power is cut, and the data plane is left out\n"
        )
    problems = 0
    for part in _PARTS if options.only is None else (options.only,):
        (directory / part).mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        if part == "metadata":
            problems += _metadata(directory / part, options)
        elif DISK_IS_THERE:
            seen = run_data_rounds(directory / part, rounds=options.rounds, seed=options.seed)
            sys.stdout.write(f"{seen.report()}\n")
        sys.stdout.write(f"{part}: seed {options.seed}, {time.monotonic() - started:.0f} s, {directory / part}\n")
    return 1 if problems else 0


def _metadata(directory: Path, options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        disk = stack.enter_context(lossy_disk(directory / "disk")) if DISK_IS_THERE else None
        rounds = run_metadata_rounds(
            directory, rounds=options.rounds, seed=options.seed, clients=options.clients, disk=disk
        )
        verdict = asyncio.run(rounds)
    sys.stdout.write(f"{verdict.report()}\n")
    return len(verdict.problems)


if __name__ == "__main__":
    sys.exit(main())
