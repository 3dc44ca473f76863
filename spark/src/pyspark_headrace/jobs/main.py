"""Command ``headrace-spark JOB``, and the program for ``spark-submit "$(headrace-spark --script)" JOB``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from pyspark_headrace.jobs.running.arguments import SETTINGS, run, sentence

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
_COMPLETE: Final = "_HEADRACE_SPARK_COMPLETE"
"""Variable with which scripts for shell completion ask this program."""
_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


def job(name: str) -> Job[Any]:
    """Import a job.

    Raises:
        KeyError: There is no job with the name.
    """
    found: Job[Any] = import_module(JOBS[name].module).JOB
    return found


class _Jobs(click.Group):
    """Jobs as commands, which are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - they are the same everywhere
        return list(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return job(cmd_name).command() if cmd_name in JOBS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Jobs"):
            formatter.write_dl([(name, sentence(entry.summary)) for name, entry in JOBS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=entry.summary) for name, entry in JOBS.items() if name.startswith(incomplete)
        ]
        # Options, from the class above that of groups, which would import every job for its help.
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in JOBS and not ctx.resilient_parsing:
            similar = get_close_matches(name, JOBS)
            what = f"did you mean {' or '.join(similar)}?" if similar else f"there are {', '.join(JOBS)}"
            ctx.fail(f"there is no job {name!r}: {what}")
        return super().resolve_command(ctx, args)


def _print_script(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        click.echo(str(Path(__file__).resolve()))
        context.exit()


def _print_completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is not None:
        click.echo(_SHELLS[shell](context.command, {}, _PROGRAM, _COMPLETE).source())
        context.exit()


@click.group(
    _PROGRAM,
    cls=_Jobs,
    help="Pipeline jobs of Headrace on Spark.",
    epilog=f"{_PROGRAM} JOB --help lists the arguments of a job.",
    context_settings=SETTINGS,
    subcommand_metavar="JOB [ARGUMENT]...",
)
@click.option(
    "--script",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_script,
    help="Print the path of the program to give to spark-submit.",
)
@click.option(
    "--print-completion",
    type=click.Choice(list(_SHELLS)),
    expose_value=False,
    is_eager=True,
    callback=_print_completion,
    help="Print a script for shell completion of jobs and arguments.",
)
def program() -> None:
    """Do nothing: the work is in the jobs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job, or describe the jobs.

    Args:
        argv: Arguments; default: those of the process.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if _COMPLETE in os.environ:
        program.main(arguments, _PROGRAM, _COMPLETE)
    if arguments and arguments[0] in JOBS:
        return job(arguments[0]).main(arguments[1:])
    try:
        run(program, arguments, _PROGRAM)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    # Python puts the directory of a script first on the module path, and that directory has modules with names of jobs.
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]
    raise SystemExit(main())
