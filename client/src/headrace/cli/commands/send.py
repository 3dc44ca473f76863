"""`headrace send`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

from headrace.cli import output
from headrace.cli.commands.topics import StreamArgument, TopicArgument
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in
from headrace.connection import identifier

_BATCH_BYTES_MAX = 1_000_000


def send(
    stream: StreamArgument,
    topic: TopicArgument,
    messages: Annotated[
        list[str] | None, typer.Argument(help="Messages to send; without any, lines of standard input are sent.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", exists=True, dir_okay=False, readable=True, help="File with one message per line."
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Send the whole file (or standard input) as one message.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Id of the partition to send to.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", "-k", help="Key of the messages; messages with equal keys go to the same partition."),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, help="Maximum number of messages per request.")] = 1000,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
) -> None:
    """Send messages: arguments, lines of a file, or lines of standard input.

    Without --partition and --key, the server chooses the partition of each batch.
    """
    if messages and (file or whole):
        raise typer.BadParameter("give messages as arguments, or --file or --whole, not both")
    if partition is not None and key is not None:
        raise typer.BadParameter("--partition and --key exclude each other")
    encoded_key = key.encode() if key is not None else None
    count = 0
    with ExitStack() as stack:
        payloads: Iterable[bytes]
        if messages:
            payloads = (message.encode() for message in messages)
        else:
            source = stack.enter_context(file.open("rb")) if file else sys.stdin.buffer
            payloads = [source.read()] if whole else (line.rstrip(b"\r\n") for line in source)
        client = stack.enter_context(logged_in(server, username, password))
        progress = stack.enter_context(_progress())
        task = progress.add_task("sending", total=None)
        for payload_batch in _batches(payloads, batch):
            client.send(identifier(stream), identifier(topic), payload_batch, partition=partition, key=encoded_key)
            count += len(payload_batch)
            progress.update(task, advance=sum(map(len, payload_batch)), description=f"{count:,} messages")
    output.stderr().print(f"sent {count:,} messages")


def _batches(payloads: Iterable[bytes], messages_max: int) -> Iterator[list[bytes]]:
    """Group payloads in order; empty payloads are skipped because the protocol has no empty messages."""
    batch: list[bytes] = []
    batch_bytes = 0
    for payload in payloads:
        if not payload:
            continue
        if batch and (len(batch) == messages_max or batch_bytes + len(payload) > _BATCH_BYTES_MAX):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(payload)
        batch_bytes += len(payload)
    if batch:
        yield batch


def _progress() -> Progress:
    console = output.stderr()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
