"""Many rounds of faults, outside the test suite."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.metadata.rounds import run_rounds


def main() -> int:
    """Run the rounds and print what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.metadata", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--folder", type=Path, help="where folders and logs stay; a temporary one by default")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="headrace-metadata-"))
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    verdict = asyncio.run(run_rounds(folder, rounds=options.rounds, seed=options.seed, clients=options.clients))
    sys.stdout.write(f"{verdict.report()}\nseed {options.seed}, {time.monotonic() - started:.0f} s, {folder}\n")
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
