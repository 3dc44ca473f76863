"""Command ``headrace-spark JOB``, and the program for ``spark-submit "$(headrace-spark --script)" JOB``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark_headrace.jobs.running.job import Job


@dataclass(frozen=True)
class Entry:
    """An available job."""

    module: str
    """Module with the job as `JOB`; imported on demand."""
    summary: str
    """Summary, the same as in the job."""


JOBS: Final[dict[str, Entry]] = {
    "archive": Entry("pyspark_headrace.jobs.archive.job", "archives topics to tables of Delta Lake or Iceberg"),
    "compact": Entry(
        "pyspark_headrace.jobs.compact.job",
        "merges small files of an archive, and removes expired and unreferenced files",
    ),
    "migrate": Entry("pyspark_headrace.jobs.migrate.job", "makes an archive of an earlier release a Delta Lake table"),
    "backfill": Entry(
        "pyspark_headrace.jobs.backfill.job",
        "replays messages of an archive, or of a range of a topic, into a topic",
    ),
    "usage": Entry(
        "pyspark_headrace.jobs.usage.job", "counts the messages and bytes that tenants have sent and stored"
    ),
    "audit": Entry("pyspark_headrace.jobs.audit.job", "checks topics and archives for gaps, duplicates and damage"),
    "transform": Entry(
        "pyspark_headrace.jobs.transform.job",
        "applies an SQL query to each message of topics, and writes the rows to a topic",
    ),
    "aggregate": Entry(
        "pyspark_headrace.jobs.aggregate.job", "computes aggregates by key and time window, from topics to a topic"
    ),
    "dedupe": Entry("pyspark_headrace.jobs.dedupe.job", "copies topics to a topic without duplicate messages"),
}
"""Jobs by name, in listing order."""

_PROGRAM: Final = "headrace-spark"
_SHELLS: Final = ("bash", "zsh")


def job(name: str) -> Job[Any]:
    """Import a job.

    Raises:
        KeyError: There is no job with the name.
    """
    found: Job[Any] = import_module(JOBS[name].module).JOB
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job, or describe the jobs.

    Args:
        argv: Arguments; default: those of the process.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in JOBS:
        return job(arguments[0]).main(arguments[1:])
    parser = _parser()
    try:
        found = parser.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    if found.script:
        print(Path(__file__).resolve())  # noqa: T201 - this is the output
        return 0
    if found.print_completion is not None:
        print(_completion(found.print_completion))  # noqa: T201 - this is the output
        return 0
    parser.print_usage(sys.stderr)
    print(f"{_PROGRAM}: error: no job given", file=sys.stderr)  # noqa: T201 - as for wrong arguments
    return 2


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the top-level program. Each job is a subcommand that parses its own arguments."""
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Pipeline jobs of Headrace on Spark.",
        epilog=f"{_PROGRAM} JOB --help lists the arguments of a job.",
        allow_abbrev=False,
    )
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--script", action="store_true", help="print the path of the program to give to spark-submit")
    ways.add_argument("--print-completion", choices=_SHELLS, help="print a script for shell completion of arguments")
    commands = parser.add_subparsers(title="jobs", metavar="JOB")
    for name, entry in JOBS.items():
        commands.add_parser(name, help=entry.summary, add_help=False)
    return parser


def _completion(shell: str) -> str:
    """Return the shell completion script for the arguments of all jobs, which imports all of them."""
    import shtab  # noqa: PLC0415 - for this alone

    from pyspark_headrace.jobs.running.arguments import add_arguments  # noqa: PLC0415

    parser = _parser()
    commands = next(action.choices for action in parser._actions if isinstance(action.choices, dict))  # noqa: SLF001
    for name, command in commands.items():
        add_arguments(command, job(name).config)
        for action in command._actions:  # noqa: SLF001 - argparse tells its arguments to nobody
            if action.metavar == "FILE":
                action.complete = shtab.FILE
    return str(shtab.complete(parser, shell=shell))


if __name__ == "__main__":
    # Python puts the directory of a script first on the module path, and that directory has modules with names of jobs.
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]
    raise SystemExit(main())
