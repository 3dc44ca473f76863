"""A thousand histories: ``python -m tests.connectors.replica --histories 1000 --seed 7``."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter

from tests.connectors.replica.history import run_history
from tests.postgresql import USER, PostgresqlServer


def main() -> int:
    """Run them, and print those that fail."""
    parser = argparse.ArgumentParser(prog="python -m tests.connectors.replica", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, help="number of them (1000)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time after which no other one begins")
    parser.add_argument("--seed", type=int, help="seed of the first one; drawn and printed if it is missing")
    options = parser.parse_args()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
    began, kills, failed, count = time.monotonic(), Counter[str](), [], 0
    server = PostgresqlServer()
    server.start()
    address = f"postgresql://{USER}@127.0.0.1:{server.port}"

    def crash() -> None:
        server.crash()
        server.start()

    try:
        for seed in range(first, first + options.histories):
            if time.monotonic() - began > options.seconds:
                break
            count += 1
            try:
                kills += run_history(address, seed, crash)
            except Exception:  # noqa: BLE001 - the others run, too
                failed.append(seed)
                sys.stdout.write(f"{traceback.format_exc()}\nrepeat it with: --histories 1 --seed {seed}\n")
                sys.stdout.flush()
    finally:
        server.crash()
        server.close()
    sys.stdout.write(
        f"{count} histories from seed {first} in {time.monotonic() - began:.0f} s, {len(failed)} failed {failed}; "
        f"kills: {dict(kills)}\n"
    )
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
