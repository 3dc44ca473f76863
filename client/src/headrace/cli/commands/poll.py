"""`headrace poll`."""

from __future__ import annotations

import re
from functools import partial

import click

from headrace.cli.messages import following, message_output
from headrace.cli.messages.membership import Membership
from headrace.cli.messages.message_output import MessageForm
from headrace.cli.messages.reading import Reader, Selection
from headrace.cli.options.arguments import STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.completing import groups as groups_completion
from headrace.cli.options.server_options import with_target
from headrace.cli.parameters import END, START, NamedValue, Partitions, Pattern, Start, WholeNumber
from headrace.cli.servers.resolving import candidates
from headrace.cli.servers.target import Target

_CONSUMER = "headrace-cli"
_COUNT = 10


@click.command("poll")
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.option(
    "--from",
    "start",
    type=START,
    default="next",
    show_default=True,
    help="Start position: next (after the stored offset), first, last, an offset, or a time (ISO 8601).",
)
@click.option("--until", type=END, help="Stop before this offset or time; without --count, all before it is read.")
@click.option(
    "--partition",
    "-p",
    "partitions",
    type=Partitions(),
    help="Partitions to read, such as 0-3,7; without it, all partitions in turn.",
)
@click.option(
    "--count",
    "-n",
    type=WholeNumber(),
    help=f"Maximum number of messages per partition, 0 for all that are there; with --group, in total.  "
    f"[default: {_COUNT}]",
)
@click.option("--follow", "-f", is_flag=True, help="Keep printing new messages as they arrive, until Ctrl-C.")
@click.option("--grep", "pattern", type=Pattern(), help="Print only messages whose payload contains this expression.")
@click.option(
    "--header",
    "-H",
    "wanted_headers",
    type=NamedValue(),
    multiple=True,
    help="Print only messages with this header; repeatable.",
)
@click.option(
    "--consumer",
    "-c",
    help=f"Name or id of the consumer whose stored offset --from next continues and --commit updates.  "
    f"[default: {_CONSUMER}]",
)
@click.option(
    "--group",
    "-g",
    shell_complete=groups_completion,
    help="Name or id of a consumer group: read as a member of it, and store its offsets.",
)
@click.option(
    "--commit/--no-commit",
    default=None,
    help="Store the offset of the last printed message for the consumer, or do not; a group always does.",
)
@click.option(
    "--output",
    "-o",
    "form",
    type=click.Choice([form.value for form in MessageForm]),
    help="Form of messages; raw: payloads only, one per line.  [default: text]",
)
@click.option("--format", "format_", help=message_output.FORMAT_HELP)
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
@with_target
def app(
    target: Target,
    stream: str,
    topic: str,
    start: Start,
    until: Start | None,
    partitions: tuple[int, ...] | None,
    count: int | None,
    follow: bool,
    pattern: re.Pattern[str] | None,
    wanted_headers: tuple[tuple[str, str], ...],
    consumer: str | None,
    group: str | None,
    commit: bool | None,
    form: str | None,
    format_: str | None,
    as_json: bool,
) -> None:
    """Read messages and print them.

    With --follow, a lost connection is opened again, and reading continues where it was.
    """
    show = _printer(form, format_, as_json=as_json)
    selection = Selection(until, pattern, wanted_headers)
    if group is not None:
        if partitions is not None or consumer is not None or commit is False or start != Start("next"):
            raise click.UsageError(
                "a member of a group reads its assigned partitions after the group's stored offsets: "
                "--group excludes --partition, --consumer, --from and --no-commit"
            )
        if not selection.is_everything:
            raise click.UsageError(
                "a member of a group reads every message: --group excludes --until, --grep, --header"
            )
        membership = Membership(stream, topic, group, count=_limit(count, _COUNT), follow=follow, show=show)
        if follow:
            following.persistently(partial(membership.read, target))
        else:
            membership.read(target)
        return
    reader = Reader(
        stream=stream,
        topic=topic,
        wanted=partitions,
        first=start,
        count=_limit(count, _COUNT if until is None else 0),
        consumer=candidates(consumer or _CONSUMER)[0],
        commit=bool(commit),
        selection=selection,
        show=show,
    )
    if follow:
        reader.follow(target)
    else:
        reader.read_once(target)


def _limit(count: int | None, default: int) -> int | None:
    """Return the maximum number of messages; None for all."""
    return (default if count is None else count) or None


def _printer(form: str | None, format_: str | None, *, as_json: bool) -> message_output.Printer:
    if sum((form is not None, format_ is not None, as_json)) > 1:
        raise click.UsageError("--output, --format and --json exclude each other: give one of them")
    if format_ is not None:
        try:
            return message_output.formatted(format_)
        except ValueError as error:
            raise click.UsageError(f"--format: {error}") from error
    return message_output.printer(MessageForm.JSON if as_json else MessageForm(form or MessageForm.TEXT))
