"""`headrace send`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from headrace.cli import output
from headrace.cli.asking import counted
from headrace.cli.errors import CommandError
from headrace.cli.messages import headers
from headrace.cli.messages.json_lines import parsed
from headrace.cli.messages.sending import Outgoing, send_all
from headrace.cli.options.arguments import STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.parameters import COUNT, PARTITION, NamedValue
from headrace.cli.servers.resolving import find_topic
from headrace.cli.servers.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command("send")
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.argument("messages", metavar="[MESSAGE]...", nargs=-1)
@click.option(
    "--file",
    "-f",
    type=click.Path(path_type=Path),
    help="File with one message per line, in place of standard input; with --whole, it is one message.",
)
@click.option("--whole", is_flag=True, help="Send the whole file (or standard input) as one message.")
@click.option(
    "--json-lines",
    is_flag=True,
    help='Each line is a JSON object: {"payload": ..., "key": "...", "partition": 0, "headers": {"name": "value"}}; '
    'payload_base64 in place of payload for bytes. All but the payload is optional. This reads what "poll --output '
    'json" prints.',
)
@click.option("--partition", "-p", type=PARTITION, help="Id of the partition to send to.")
@click.option(
    "--key", "-k", help="Key of the messages, stored with them; messages with equal keys go to the same partition."
)
@click.option("--header", "-H", "given", type=NamedValue(), multiple=True, help="Header of every message; repeatable.")
@click.option(
    "--keep-empty", is_flag=True, help="Send empty lines as empty messages. Otherwise they are counted and skipped."
)
@click.option("--batch", "-b", type=COUNT, default=1000, show_default=True, help="Maximum of messages per request.")
@with_target
def app(
    target: Target,
    stream: str,
    topic: str,
    messages: tuple[str, ...],
    file: Path | None,
    whole: bool,
    json_lines: bool,
    partition: int | None,
    key: str | None,
    given: tuple[tuple[str, str], ...],
    keep_empty: bool,
    batch: int,
) -> None:
    """Send messages: arguments, lines of a file, or lines of standard input.

    Without --partition and --key, the server chooses the partition of each batch. The exit status is 0 if every message
    is acknowledged; otherwise it is said which are, and which are uncertain.
    """
    if messages and (file or whole):
        raise click.UsageError("give messages as arguments, or --file or --whole, not both")
    if whole and json_lines:
        raise click.UsageError("--whole and --json-lines exclude each other")
    if partition is not None and key is not None:
        raise click.UsageError("--partition and --key exclude each other")
    skipped = _Skipped(keep_empty)
    # A key is bytes, as a message is.
    encoded_key = key.encode("utf-8", "surrogateescape") if key is not None else None
    form = Outgoing(0, b"", headers.encoded(given), encoded_key, partition)
    with ExitStack() as stack:
        lines: Iterable[bytes]
        if messages:
            lines = (message.encode("utf-8", "surrogateescape") for message in messages)
        else:
            source = stack.enter_context(_opened(file))
            lines = [source.read()] if whole else (line.rstrip(b"\r\n") for line in source)
        outgoing = skipped.filtered(enumerate(lines, 1), form)
        if json_lines:
            outgoing = (parsed(message, dict(given)) for message in outgoing)
        client = stack.enter_context(target.connected())
        path = find_topic(client, stream, topic)
        if partition is not None and path.details is not None:
            path.partitions([partition])
        report = stack.enter_context(_progress())
        count = send_all(client, path, outgoing, messages_max=batch, on_acknowledged=report)
    output.say(f"sent {counted(count, 'message')}{skipped}")


class _Skipped:
    """Leaves empty lines out, and counts them."""

    def __init__(self, keep_empty: bool) -> None:
        self._keep_empty = keep_empty
        self._count = 0
        self._first = 0

    def filtered(self, lines: Iterable[tuple[int, bytes]], form: Outgoing) -> Iterator[Outgoing]:
        """Return a message for each line that is sent."""
        _, _, encoded, key, partition = form
        for number, line in lines:
            if line or self._keep_empty:
                yield Outgoing(number, line, encoded, key, partition)
            else:
                self._first = self._first or number
                self._count += 1

    def __str__(self) -> str:
        if not self._count:
            return ""
        lines = f"line {self._first:,}" if self._count == 1 else f"the first is line {self._first:,}"
        return f"; skipped {counted(self._count, 'empty line')} ({lines}): --keep-empty sends them"


@contextmanager
def _opened(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None:
        yield sys.stdin.buffer
        return
    try:
        opened = file.open("rb")
    except OSError as error:
        raise CommandError(f"--file: {file} cannot be read: {error.strerror}") from error
    with opened:
        yield opened


@contextmanager
def _progress() -> Iterator[Callable[[int, int, int], None]]:
    if not sys.stderr.isatty():
        yield lambda _count, _size_bytes, _line: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TransferSpeedColumn())
    with Progress(*columns, console=output.stderr(), transient=True) as progress:
        task = progress.add_task("sending", total=None)
        yield lambda count, size_bytes, _line: progress.update(
            task, advance=size_bytes, description=f"{count:,} messages"
        )
