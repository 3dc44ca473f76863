"""`headrace export`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from headrace.cli import output
from headrace.cli.asking import counted
from headrace.cli.errors import CommandError
from headrace.cli.options.arguments import STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.parameters import END, Partitions, Start, StartPosition
from headrace.cli.servers.target import Target
from headrace.cli.transfer.exporting import Export
from headrace.cli.transfer.state import FileForm, form_of


@click.command("export")
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in FileForm]),
    help="Form of the file, if its suffix does not say it. Parquet is a directory of files, and needs pyarrow.",
)
@click.option("--partition", "-p", "partitions", type=Partitions(), help="Partitions, such as 0-3,7; otherwise all.")
@click.option(
    "--from",
    "start",
    type=StartPosition("first"),
    default="first",
    show_default=True,
    help="First message: first, an offset, or a time (ISO 8601).",
)
@click.option("--until", type=END, help="Stop before this offset or time; otherwise with the last message of now.")
@click.option("--overwrite", is_flag=True, help="Begin again, and replace the file.")
@with_target
def app(
    target: Target,
    stream: str,
    topic: str,
    file: Path,
    form: str | None,
    partitions: tuple[int, ...] | None,
    start: Start,
    until: Start | None,
    overwrite: bool,
) -> None:
    """Write the messages of a topic to a file.

    If it is interrupted, the same command continues it, without gaps or repeats: FILE.export-state has what is needed,
    and is removed at the end.
    """
    with _progress() as on_progress:
        export = Export(
            target=target,
            stream=stream,
            topic=topic,
            path=file,
            form=form_of(file, form),
            partitions=partitions,
            start=start,
            until=until,
            overwrite=overwrite,
            on_progress=on_progress,
        )
        try:
            count = export.run()
        except KeyboardInterrupt:
            raise CommandError(
                f"interrupted: {file} has {counted(export.committed_count, 'message')}; the same command continues",
                status=130,
            ) from None
    if export.removed_count:
        output.say(f"{counted(export.removed_count, 'message')} were removed by retention before they could be read")
    output.say(f"exported {counted(count, 'message')} to {file}")


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("exporting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.stderr(), transient=True) as progress:
        task = progress.add_task("exporting", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
