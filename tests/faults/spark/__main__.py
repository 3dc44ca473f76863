"""Many kills, outside the test suite: `make faults-spark ARGS="--kills 200 --seed 7"`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.spark.run import run


def main() -> int:
    """Run and print the results; the last line is JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.spark", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="directory for data and logs; a temporary one by default")
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="headrace-spark-"))
    directory.mkdir(parents=True, exist_ok=True)
    # Exit through the cleanup of started processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {line}\n")
        sys.stdout.flush()

    verdict = run(directory, kills=options.kills, seed=options.seed, say=say)
    sys.stdout.write(
        f"{verdict.report()}\nseed {verdict.seed}, {verdict.seconds:.0f} s, {directory}\n{verdict.to_json()}\n"
    )
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
