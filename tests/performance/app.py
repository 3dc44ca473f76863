"""Command line program of `make bench`."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.performance import cases, options
from tests.performance.loads.official_client import OfficialClient
from tests.performance.results import document, report
from tests.performance.workbench import Workbench

SCRATCH = Path(__file__).resolve().parents[2] / ".cache"
"""Scratch directory on the repository's device, outside version control; temporary directories are memory on many
machines.
"""


def main(argv: Sequence[str]) -> int:
    """Measure, print and write the results; the status is 0 if everything could be measured, whatever the results."""
    chosen = options.parse(argv, SCRATCH)
    console, errors = Console(), Console(stderr=True)
    official = None
    if chosen.official:
        with _progress(errors, "building the official client (several minutes for the first time)"):
            official = OfficialClient.build()
    chosen.directory.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    machine = document.machine()
    console.print(Text(_introduction(machine, chosen)), soft_wrap=True)
    sections = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=chosen.directory) as directory:
        for name in chosen.cases:
            with _progress(errors, name) as started:
                bench = Workbench(
                    scale=chosen.scale,
                    directory=Path(directory),
                    official=official,
                    kafka=chosen.kafka,
                    connectors=chosen.connectors,
                    started=started,
                )
                sections.append(cases.RUN[name](bench))
            report.show(sections[-1], console)
    report.show_summary(sections, console)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    console.print(f"took {time.monotonic() - begin:.0f} s; load average afterwards {load}", highlight=False)
    if chosen.json_file is not None:
        document.write(chosen.json_file, document.document(machine, chosen, sections))
    return 0


def _introduction(machine: dict[str, object], chosen: options.Options) -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    rounds = chosen.scale.rounds
    return (
        f"headrace {machine['version']}, {machine['profile']} build, "
        f"{machine['cpus_count']} CPUs, {machine['system']}, {machine['started_at']}, "
        f"load average {load}\n"
        f"medians of {rounds} round{'s' * (rounds > 1)} after one that does not count; measurements with a goal are "
        "repeated round by round; GB and MB are powers of ten, of payload"
    )


@contextmanager
def _progress(console: Console, what: str) -> Generator[Callable[[str], None]]:
    """Show the current step on a terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda detail: status.update(f"{what}: {detail}")
