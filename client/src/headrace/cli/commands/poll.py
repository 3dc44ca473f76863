"""`headrace poll`."""

from __future__ import annotations

import base64
import datetime
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from headrace.cli import following, output
from headrace.cli.commands.topics import StreamArgument, TopicArgument
from headrace.cli.membership import Group, read_as_member
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in
from headrace.connection import identifier
from headrace_core import Client, Message, Polled

_CONSUMER = "headrace-cli"


class Format(StrEnum):
    """Output format of messages."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Start:
    """Start position: a polling strategy of the protocol, and its value."""

    strategy: str
    value: int = 0


def parse_start(text: str) -> Start:
    """Parse `next`, `first`, `last`, an offset, or a time in ISO format (local time unless it has a time zone)."""
    if text in {"next", "first", "last"}:
        return Start(text)
    if text.isascii() and text.isdecimal():
        return Start("offset", int(text))
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a start position: give next, first, last, an offset such as 42, or a time such as "
            "2026-01-31T12:00"
        ) from None
    return Start("timestamp", int(moment.astimezone().timestamp() * 1_000_000))


def poll(
    stream: StreamArgument,
    topic: TopicArgument,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="START", help="Start position: next, first, last, an offset, or a time (ISO 8601)."
        ),
    ] = "next",
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", min=0, help="Partition to read; without it, all partitions are read in turn."
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option("--count", "-n", min=1, help="Maximum number of messages per partition; with --group, in total."),
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new messages as they arrive, until Ctrl-C.")
    ] = False,
    consumer: Annotated[
        str | None,
        typer.Option(
            "--consumer",
            "-c",
            show_default=_CONSUMER,
            help="Name or id of the consumer whose stored offset --from next continues and --commit updates.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", help="Name or id of a consumer group: read as a member of it, and store its offsets."
        ),
    ] = None,
    commit: Annotated[
        bool | None,
        typer.Option(
            "--commit/--no-commit",
            show_default="no-commit; a group always commits",
            help="Store the offset of the last message for the consumer, or do not.",
        ),
    ] = None,
    form: Annotated[
        Format, typer.Option("--output", "-o", help="Output format: text, json, or raw (payloads only, one per line).")
    ] = Format.TEXT,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
) -> None:
    """Read messages and print them."""
    first = parse_start(start)
    if group is not None:
        if partition is not None or consumer is not None or commit is False or first != Start("next"):
            raise typer.BadParameter(
                "a member of a group reads its assigned partitions after the group's stored offsets: "
                "--group excludes --partition, --consumer, --from and --no-commit"
            )
        with logged_in(server, username, password) as client:
            path = Group(identifier(stream), identifier(topic), identifier(group))
            read_as_member(
                client, path, count=count, follow=follow, show=lambda owned, message: _print(owned, message, form)
            )
        return
    with ExitStack() as stack:
        client = stack.enter_context(logged_in(server, username, password))
        partitions = [partition] if partition is not None else _partitions(client, stream, topic)
        starts = dict.fromkeys(partitions, first)
        read, until_news = client.poll, following.pause
        if following.can_wait(client):
            read = partial(client.wait, maximum_wait_seconds=0.0)
            if follow and len(partitions) == 1:
                read, until_news = partial(client.wait, maximum_wait_seconds=following.WAIT_SECONDS), following.at_once
            elif follow:
                other = stack.enter_context(logged_in(server, username, password))
                until_news = following.until_news(other, identifier(stream), identifier(topic), partitions)
        while True:
            printed = 0
            for number in partitions:
                polled = read(
                    identifier(stream),
                    identifier(topic),
                    number,
                    strategy=starts[number].strategy,
                    value=starts[number].value,
                    count=count,
                    consumer=identifier(consumer or _CONSUMER),
                    auto_commit=bool(commit),
                )
                following.warn_of_gap(number, polled.gap)
                for message in polled.messages:
                    _print(number, message, form)
                starts[number] = _behind(polled, starts[number])
                printed += len(polled.messages)
            sys.stdout.flush()
            if not follow:
                return
            if not printed:
                until_news()


def _behind(polled: Polled, start: Start) -> Start:
    """Return the position after the polled messages."""
    if polled.messages:
        return Start("offset", polled.messages[-1].offset + 1)
    if polled.gap is not None:
        return Start("offset", polled.gap[1])
    return Start("first") if start.strategy == "last" else start


def _partitions(client: Client, stream: str, topic: str) -> list[int]:
    found = client.topic(identifier(stream), identifier(topic))
    if found is None:
        raise typer.BadParameter(f"there is no topic {topic!r} in stream {stream!r}")
    return [partition.id for partition in found.partitions]


def _print(partition: int, message: Message, form: Format) -> None:
    if form is Format.RAW:
        sys.stdout.buffer.write(message.payload + b"\n")
    elif form is Format.JSON:
        output.print_json(
            {
                "partition": partition,
                "offset": message.offset,
                "timestamp_micros": message.timestamp_micros,
                "origin_timestamp_micros": message.origin_timestamp_micros,
                "id": message.id,
                **_payload(message.payload),
                **({"user_headers": base64.b64encode(message.user_headers).decode()} if message.user_headers else {}),
            }
        )
    else:
        text = output.harmless(message.payload.decode("utf-8", errors="backslashreplace"))
        typer.echo(f"{partition}:{message.offset}  {output.moment(message.timestamp_micros)}  {text}")


def _payload(payload: bytes) -> dict[str, str]:
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}
