"""`headrace import`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from headrace.cli import output
from headrace.cli.asking import counted
from headrace.cli.errors import CommandError
from headrace.cli.messages.json_lines import message_of
from headrace.cli.messages.sending import Outgoing, send_all
from headrace.cli.options.arguments import STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.parameters import COUNT, NamedValue
from headrace.cli.servers.resolving import find_topic
from headrace.cli.servers.target import Target
from headrace.cli.transfer.sources import CONVERSIONS, records
from headrace.cli.transfer.state import FileForm, StateFile, form_of


@click.command("import")
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in FileForm]),
    help="Form of the file, if its suffix does not say it. Parquet needs pyarrow.",
)
@click.option(
    "--ignore-partitions", is_flag=True, help="Let the server choose partitions, also for messages that have one."
)
@click.option(
    "--type",
    "types",
    metavar="COLUMN=TYPE",
    type=NamedValue(),
    multiple=True,
    help="Type of a column of CSV: int, float, bool or text, which all are otherwise; for each column.",
)
@click.option("--batch", "-b", type=COUNT, default=1000, show_default=True, help="Maximum of messages per request.")
@with_target
def app(
    target: Target,
    stream: str,
    topic: str,
    file: Path,
    form: str | None,
    ignore_partitions: bool,
    types: tuple[tuple[str, str], ...],
    batch: int,
) -> None:
    """Send the messages of a file to a topic.

    It reads what `headrace export` writes: the fields or columns payload or payload_base64, and optionally key,
    partition, and headers or user_headers. A row of CSV or Parquet without a payload is sent as a JSON object of its
    columns. CSV has texts alone: --type price=float makes numbers of a column; an empty value of it is null.

    If it is interrupted, the same command continues after what was acknowledged, by FILE.import-state; a batch whose
    acknowledgement was lost is sent again.
    """
    chosen = form_of(file, form)
    kinds = _kinds(types, chosen)
    if not file.exists():
        raise CommandError(f"{file} does not exist")
    state_file = StateFile.beside(file, "import")
    with target.connected() as client:
        path = find_topic(client, stream, topic)
        of = {"topic": path.name, "format": str(chosen), "size_bytes": file.stat().st_size}
        if kinds:
            of["types"] = dict(kinds)
        state = state_file.load(of) or {"line": 0, "count": 0}
        done_line, done_count = state["line"], state["count"]
        # Lines of a batch that was acknowledged in part. States of older versions have none.
        done_later = frozenset(state.get("later_lines", ()))
        outgoing = (
            message_of(Outgoing(number, b""), fields, {}, ignore_partitions=ignore_partitions)
            for number, fields in records(chosen, file, kinds)
            if number > done_line and number not in done_later
        )
        last_line = done_line

        def save(count: int, later: Iterable[int]) -> None:
            lines = sorted(line for line in later if line > last_line)
            state_file.save(of, {"line": last_line, "count": done_count + count, "later_lines": lines})

        with _progress() as on_progress:

            def on_acknowledged(count: int, size_bytes: int, line: int) -> None:
                nonlocal last_line
                last_line = line
                save(count, done_later)
                on_progress(count, size_bytes)

            def on_stopped(count: int, lines: list[int]) -> None:
                save(count, done_later.union(lines))

            try:
                count = send_all(
                    client,
                    path,
                    outgoing,
                    messages_max=batch,
                    on_acknowledged=on_acknowledged,
                    on_stopped=on_stopped,
                )
            except CommandError as error:
                advice = "the same command continues, and sends what is uncertain again"
                raise CommandError(f"{error}\n{advice}", status=error.status) from error
    state_file.remove()
    earlier = f", after {done_count:,} in earlier runs" if done_count else ""
    output.say(f"imported {counted(count, 'message')} from {file}{earlier}")


def _kinds(types: Sequence[tuple[str, str]], form: FileForm) -> dict[str, str]:
    """Return the types by column.

    Raises:
        click.UsageError: There is no such type, or the form has types of its own.
    """
    for column, kind in types:
        if kind not in CONVERSIONS:
            raise click.UsageError(f"--type: {column}={kind}: there is no type {kind!r}, but {', '.join(CONVERSIONS)}")
    if types and form is not FileForm.CSV:
        raise click.UsageError(f"--type: values of {form} have types of their own: only CSV has none")
    return dict(types)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    if not sys.stderr.isatty():
        yield lambda _count, _size_bytes: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TransferSpeedColumn())
    with Progress(*columns, console=output.stderr(), transient=True) as progress:
        task = progress.add_task("importing", total=None)
        yield lambda count, size_bytes: progress.update(task, advance=size_bytes, description=f"{count:,} messages")
