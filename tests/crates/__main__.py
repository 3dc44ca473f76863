"""Run `cargo test` with a time limit: `python -m tests.crates --locked -p headrace-log`.

The arguments are those of `cargo test`, and the exit status is that of Cargo. Cargo starts each test binary by way of
`watch.py`, which kills one of which no test has ended for `CRATE_TEST_SECONDS` (300), and names the tests that were
running: the test harness of Rust has no limit. `CARGO` is the program to run (`cargo`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WATCH = Path(__file__).with_name("watch.py")


def command(arguments: list[str]) -> list[str]:
    """Command line of Cargo, with the program that watches test binaries."""
    runner = json.dumps([sys.executable, str(WATCH)])
    cargo = os.environ.get("CARGO", "cargo")
    return [cargo, "test", "--config", f"target.'cfg(all())'.runner={runner}", *arguments]


def main() -> int:
    """Run the tests in `core`. Returns the exit status."""
    return subprocess.run(command(sys.argv[1:]), cwd=ROOT / "core", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
