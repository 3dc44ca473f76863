"""Run every long suite in turn, with new seeds: `make soak MINUTES=60`.

The history is kept in a directory: the next run continues with the suites that have had the least of their share. The
exit status is 1 if a round has failed; the report contains the command that repeats it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from tests.soak.journal import Journal, report
from tests.soak.run import Soak
from tests.soak.suites import ROOT, SUITES


def main() -> int:
    """Run the suites and print the report."""
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it goes on (60)")
    parser.add_argument("--only", choices=names, action="append", help="only this suite; may be given several times")
    parser.add_argument(
        "--directory",
        type=Path,
        default=ROOT / ".cache/soak",
        help="journal, report and logs (.cache/soak)",
    )
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs did")
    parser.add_argument("--list", action="store_true", help="print the suites, and which of them can run here")
    options = parser.parse_args()
    wanted = [suite for suite in SUITES if not options.only or suite.name in options.only]
    left_out = [(suite.name, why) for suite in wanted if (why := suite.missing())]
    if options.list:
        reasons = dict(left_out)
        for suite in wanted:
            why = f"; not here: {reasons[suite.name]}" if suite.name in reasons else ""
            sys.stdout.write(f"{suite.name:<22}{suite.shows}{why}\n")
        return 0

    options.directory.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        (options.directory / "journal.jsonl").unlink(missing_ok=True)
    journal = Journal(options.directory / "journal.jsonl")
    before = list(journal.entries)
    began = time.monotonic()

    def say(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.1f} s  {line}\n")
        sys.stdout.flush()

    here = [suite for suite in wanted if suite.name not in dict(left_out)]
    soak = Soak(here, journal, options.directory, seconds=options.minutes * 60, say=say)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        soak.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    done = soak.run()
    text = report(done, before, left_out)
    (options.directory / "report.md").write_text(text, encoding="utf-8")
    sys.stdout.write(f"\n{text}\nreport: {options.directory / 'report.md'}\n")
    return 1 if any(entry.status == "failed" for entry in done) else 0


if __name__ == "__main__":
    sys.exit(main())
