"""`headrace fsck`."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli import output
from headrace.cli.diagnosis import data_files
from headrace.cli.errors import CommandError
from headrace.cli.operating_documents import FileFinding, FilesDocument
from headrace.cli.output import Form, with_form
from headrace_chassis.directories import locked
from headrace_chassis.errors import DirectoryInUse


@click.command("fsck")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path("local_data"))
@click.option(
    "--repair",
    is_flag=True,
    help="Write what other files give: manifests, their copies, and indexes. Messages are never changed.",
)
@with_form
def app(directory: Path, form: Form, repair: bool) -> None:
    """Check every file in the data directory of a stopped server or partition node.

    Every message is compared with its checksum, and the files with one another. Nothing is changed without --repair,
    and nothing is removed. The exit status is 1 if a problem is left.
    """
    path = directory.absolute()
    try:
        with locked(path):
            found = _checked(path, repair=repair)
    except DirectoryInUse as error:
        raise CommandError(f"{error}: stop it first, since its files change") from error
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror or error}") from error
    output.show(form, found, lambda: _print(found))
    if found["problems_count"]:
        raise click.exceptions.Exit(1)


def _checked(path: Path, *, repair: bool) -> FilesDocument:
    # Importing it is slow, and the help of this command does not need it.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    partitions = data_files.partitions_below(path)
    sizes = {partition: data_files.size_of(partition) for partition in partitions}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.stderr(), transient=True) as progress:
        task = progress.add_task(f"{len(partitions):,} partitions", total=sum(sizes.values()))
        return data_files.check(
            path, partitions, repair=repair, on_checked=lambda partition: progress.advance(task, sizes[partition])
        )


def _print(found: FilesDocument) -> None:
    if found["findings"]:
        output.print_table(
            ("file", "finding", "byte", "offset", "explanation"), [_row(finding) for finding in found["findings"]]
        )
    problems = found["problems_count"]
    verdict = output.coloured(f"{problems:,} problems", "red") if problems else output.coloured("no problem", "green")
    click.echo(
        f"{found['partitions_count']:,} partitions, {found['messages_count']:,} messages, "
        f"{output.size(found['bytes'])} compared with checksums: {verdict}"
    )


def _row(finding: FileFinding) -> tuple[object, ...]:
    kind = finding["kind"].replace("_", " ")
    bytes_count, count = finding["bytes"], finding["messages_count"]
    where = output.or_dash(finding["position"])
    if finding["position"] is not None and bytes_count:
        where = f"{finding['position']} ({bytes_count})"
    offset = output.or_dash(finding["offset"])
    if finding["offset"] is not None and count:
        offset = f"{finding['offset']} ({count})"
    return (
        finding["path"],
        f"{kind}, repaired" if finding["repaired"] else kind,
        where,
        offset,
        finding["explanation"],
    )
