"""Run the SDK under faults: `python -m tests.faults.sdk --minutes 10`."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.sdk.run import RunFailed, run

_ROUND_SECONDS = 60.0


def main() -> int:
    """Run one round after the other, each with a seed of its own, until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sdk", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long it goes on (10)")
    parser.add_argument("--seed", type=int, help="seed of the first round; the next ones count on")
    options = parser.parse_args()
    # Each broken connection is a line of the log.
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 24)
    began = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.1f} s  {line}\n")
        sys.stdout.flush()

    while (left := options.minutes * 60 - (time.monotonic() - began)) > 1:
        say(f"seed {seed}")
        with tempfile.TemporaryDirectory(prefix="headrace-faults-") as directory:
            try:
                run(Path(directory), seed, min(left, _ROUND_SECONDS), say)
            except RunFailed as failure:
                say(f"failed with --seed {seed}:\n{failure}")
                return 1
        seed += 1
    say("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
