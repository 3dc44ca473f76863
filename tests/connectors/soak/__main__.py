"""A million changes and a hundred kills: ``python -m tests.connectors.soak --changes 1000000 --kills 100 --seed 7``."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.connectors.soak.run import Run
from tests.connectors.soak.variants import CHOICES, Variant


def main() -> int:
    """Run it, and print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.connectors.soak", description=__doc__)
    parser.add_argument("--changes", type=int, default=1_000_000, help="of rows (1,000,000)")
    parser.add_argument("--kills", type=int, default=100, help="of runtime, server or database (100)")
    parser.add_argument("--seed", type=int, help="decides changes and kills; drawn and printed if it is missing")
    parser.add_argument("--transaction-max", type=int, default=500, help="rows of the largest statements (500)")
    for name, values in CHOICES.items():
        default = values[0] if name == "guarantee" else "drawn by the seed"
        parser.add_argument(f"--{name}", choices=values, help=f"of the variant; {default} if missing")
    parser.add_argument("--directory", type=Path, help="directory for data and logs; a temporary one by default")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
    directory = options.directory or Path(tempfile.mkdtemp(prefix="headrace-soak-"))
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:6.0f} s  {text}\n")
        sys.stdout.flush()

    variant = Variant.chosen(seed, options)
    run = Run(directory, seed, options.changes, options.kills, say, variant, transaction_max=options.transaction_max)
    say(f"{directory}, {run.outcome.command}")
    outcome = run.run()
    say(outcome.report())
    if outcome.problems:
        return 1
    if options.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
