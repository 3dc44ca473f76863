"""`headrace connect`. The runtime is imported by the functions that need it: `status` does without."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from headrace.cli import output
from headrace.cli.asking import confirm, counted, with_yes
from headrace.cli.family import family
from headrace.cli.options.arguments import STREAM_ARGUMENT, TOPIC_ARGUMENT
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import Pattern, WholeNumber
from headrace.cli.servers.http_target import Api
from headrace.cli.servers.target import Target
from headrace_connectors.commands import changes
from headrace_connectors.commands.documents import (
    ConformanceDocument,
    RedriveDocument,
    TrialDocument,
    TriedRecordDocument,
)
from headrace_connectors.commands.options import CONNECTOR_ARGUMENT, converted, plugin_names, with_connectors
from headrace_connectors_api import ConnectorAnswer, DestinationAnswer

_FAILING: Final = frozenset({"degraded", "error"})
_SHOWN_CHARACTERS: Final = 60
_WOULD: Final = {"sent": "would be sent", "written": "would be written"}
"""Outcomes for people: a test stores nothing."""
_PIPELINE_ARGUMENT: Final = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


@family("connect", "Run and check connectors, which move records between topics and other systems.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@_PIPELINE_ARGUMENT
def lint(file: Path) -> None:
    """Check a pipeline file; list all mistakes with their lines, and exit with status 1 if there are any.

    Nothing is started or connected to. Fields that settings name are compared with those that a source states; for the
    others, a note leads to `headrace connect test`, which looks at records.
    """
    from headrace_connectors.commands import pipelines  # noqa: PLC0415

    pipeline = pipelines.read(file)
    unknown = pipelines.unknown_fields(pipeline)
    found = [("source", pipeline.sources), ("sink", pipeline.sinks)]
    texts = [f"{counted(len(specs), kind)} ({', '.join(specs)})" for kind, specs in found if specs]
    click.echo(f"{file} is valid: {', '.join(texts)}")
    if unknown:
        output.say(f"Only records show whether they have these fields; `headrace connect test {file}` looks at some:")
    for one in unknown:
        output.say(f"  {output.harmless(one)}")


@app.command()
@_PIPELINE_ARGUMENT
def run(file: Path) -> None:
    """Run the connectors of a pipeline file in the foreground. Ctrl-C stops them: what is in flight ends first.

    Log records go to standard error. On a terminal, a line for each connector below them has its state, records, and
    records per second.
    """
    from headrace_connectors.commands import foreground, pipelines  # noqa: PLC0415

    foreground.run(pipelines.read(file))


@app.command()
@with_connectors
@with_form
def status(api: Api, form: Form) -> None:
    """Show the connectors of a process: state, records and the last error of each.

    The exit status is 1 if one is degraded or in error.
    """
    document = api.ask_json("GET", "/connectors")
    connectors = converted(document, list[ConnectorAnswer])
    output.show(form, document, lambda: _print_connectors(connectors))
    if any(one.state in _FAILING for one in connectors):
        raise click.exceptions.Exit(1)


@app.command()
@CONNECTOR_ARGUMENT
@with_connectors
@with_form
def destinations(key: str, api: Api, form: Form) -> None:
    """Show the topics that a connector writes to: circuit breaker, messages and the last error of each."""
    document = api.ask_json("GET", f"/connectors/{quote(key, safe='')}/destinations")
    found = converted(document, list[DestinationAnswer])
    output.show(form, document, lambda: _print_destinations(found))


for _command in (changes.versions, changes.activate, changes.rollback, changes.apply):
    app.add_command(_command)


@app.command()
@click.argument("plugin", metavar="PLUGIN", shell_complete=plugin_names("sources", "sinks"))
@click.option("--source", "kind", flag_value="sources", help="Write a source, if PLUGIN is the name of a sink, too.")
@click.option("--sink", "kind", flag_value="sinks", help="Write a sink, if PLUGIN is the name of a source, too.")
def new(plugin: str, kind: str | None) -> None:
    """Print a pipeline file for a source or a sink, with every setting, its default and its description.

    Blanks are marked as ${NAME}. `headrace connect lint` reports those that are left. For example: `headrace connect
    new postgres > pipeline.toml`.
    """
    from headrace_connectors.commands import pipelines  # noqa: PLC0415

    click.echo(pipelines.template(plugin, kind), nl=False)


@app.command()
@with_form
def plugins(form: Form) -> None:
    """List the installed plugins: sources, sinks, transforms and codecs, with the versions of their distributions."""
    from headrace_connectors.commands import pipelines  # noqa: PLC0415

    found = pipelines.plugins()
    columns = ("kind", "plugin", "distribution", "version", "contract")
    rows = [
        (
            one["kind"],
            one["name"],
            one["distribution"],
            one["version"],
            f"v{one['contract']}" if one["is_usable"] else f"v{one['contract']}: not usable with this release",
        )
        for one in found
    ]
    output.show(form, found, lambda: output.print_table(columns, rows))


@app.command("test")
@_PIPELINE_ARGUMENT
@click.option(
    "--records",
    "-n",
    "records_max",
    type=WholeNumber(1, 100_000),
    default=10,
    show_default=True,
    help="Maximum number of records of each source, and of messages of each topic of a sink.",
)
@with_form
def test_(file: Path, records_max: int, form: Form) -> None:
    """Poll the sources of a pipeline file, and show where records would go; show what its sinks would write.

    Nothing is stored, committed, written or created. A source that has no records within 5 seconds is reported. Of
    sinks, the next messages are decoded and transformed; if there are none, the last ones. Fields that the settings
    name and no record has are warned of. The exit status is 1 if a connector could not be tried, would refuse a record,
    or a message is invalid.
    """
    from headrace_connectors.commands import pipelines  # noqa: PLC0415

    trials = pipelines.trials(pipelines.read(file), records_max)
    output.show(form, trials, lambda: _print_trials(trials))
    if any(one["error"] is not None or _refused(one) for one in trials):
        raise click.exceptions.Exit(1)


@app.command()
@STREAM_ARGUMENT
@TOPIC_ARGUMENT
@click.option("--reason", type=Pattern(), help="Send only letters whose reason contains this expression.")
@click.option(
    "--to",
    nargs=2,
    metavar="STREAM TOPIC",
    help="Topic to send the letters to, such as one that a sink reads; without it, those that they came from.",
)
@click.option("--count", "-n", type=WholeNumber(1), help="Maximum number of letters.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@with_target
@with_form
@with_yes
def redrive(
    target: Target,
    form: Form,
    stream: str,
    topic: str,
    reason: re.Pattern[str] | None,
    to: tuple[str, str] | None,
    count: int | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Send the messages of a dead-letter topic back to the topics that they came from.

    Each letter is sent once, also if a run is killed: another run goes on where it ended. Letters between those that
    are sent, and that stay, are appended to the topic again. Delete the group `headrace-redrive` to send all again.
    After a kill, a server without transactions gets a batch twice, with the same ids.
    """
    from headrace.cli.messages.redriving import Redrive  # noqa: PLC0415

    work = Redrive(target, stream, topic, to, reason, count)
    plan = work.plan()
    document: list[RedriveDocument] = [
        {"reason": way.reason, "stream": way.stream, "topic": way.topic, "count": number}
        for way, number in [*plan.sent.most_common(), *plan.kept.most_common()]
    ]
    output.show(form, document, lambda: _print_redrive(document))
    total = plan.sent.total()
    if dry_run or not total:
        return
    confirm(f"send {counted(total, 'letter')} of {stream}/{topic}", yes=yes)
    with _progress(total) as on_progress:
        work.run(plan, on_progress)
    output.say(f"sent {counted(total, 'letter')} of {stream}/{topic}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    # Imported only when it is used: it takes a tenth of a second.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=output.stderr(), transient=True) as progress:
        task = progress.add_task("redriving", total=total)
        yield lambda count: progress.update(task, completed=count)


def _print_redrive(document: list[RedriveDocument]) -> None:
    rows = [
        (one["reason"], "stays" if one["stream"] is None else f"{one['stream']}/{one['topic']}", one["count"])
        for one in document
    ]
    if rows:
        output.print_table(("reason", "destination", "letters"), rows)
    else:
        click.echo("there are no letters that were not redriven")


@app.command("test-plugin")
@click.argument("plugin", metavar="PLUGIN", shell_complete=plugin_names("sources", "sinks", "transforms", "codecs"))
@click.option(
    "--kind",
    type=click.Choice(("source", "sink", "transform", "codec")),
    help="Kind of the plugin; all of its name if not given.",
)
@click.option(
    "--case",
    metavar="MODULE:CLASS",
    help="Case with the plugin's settings and what is around it, a subclass of headrace_connectors.conformance.Case.",
)
@with_form
def test_plugin(plugin: str, kind: str | None, case: str | None, form: Form) -> None:
    """Check that an installed plugin keeps the rules of the contract.

    Without a case, the rules for its version and its settings are checked. The exit status is 1 if a rule is broken.
    """
    from headrace_connectors.commands import conformance  # noqa: PLC0415

    found = conformance.outcomes(plugin, kind, case)
    output.show(form, found, lambda: _print_outcomes(found))
    if any(one["result"] == "failed" for one in found):
        raise click.exceptions.Exit(1)


def _print_outcomes(found: list[ConformanceDocument]) -> None:
    results = {"passed": "passed", "failed": "failed", "not_checked": "not checked"}
    rows = [(one["kind"], one["rule"], results[one["result"]], one["reason"] or one["text"]) for one in found]
    output.print_table(("kind", "rule", "result", "text"), rows)


def _refused(trial: TrialDocument) -> bool:
    return any(record["outcome"] in {"refused", "invalid"} for record in trial["records"])


def _print_connectors(connectors: list[ConnectorAnswer]) -> None:
    output.print_table(
        ("connector", "kind", "plugin", "state", "records", "batches", "destinations", "last commit", "last error"),
        [
            (
                one.key,
                one.kind,
                one.plugin,
                one.state,
                one.records_count,
                one.batches_count,
                output.or_dash(one.destinations_count),
                output.local_date(one.last_commit_at),
                _error_of(one),
            )
            for one in connectors
        ],
    )


def _error_of(connector: ConnectorAnswer) -> str:
    """Return the last error with its time, unless the connector has recovered from it: `errors` of the JSON has all."""
    at, committed_at = connector.last_error_at, connector.last_commit_at
    is_past = connector.state not in _FAILING and not connector.consecutive_failures
    if at is None or (is_past and committed_at is not None and _moment(at) < _moment(committed_at)):
        return "-"
    return f"{output.local_date(at)}: {connector.last_error}"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _print_destinations(found: list[DestinationAnswer]) -> None:
    output.print_table(
        ("stream", "topic", "circuit", "partitions", "messages", "last error"),
        [
            (
                one.stream,
                one.topic,
                one.circuit,
                output.or_dash(one.partitions_count),
                one.messages_count,
                output.or_dash(one.last_error),
            )
            for one in found
        ],
    )


def _print_trials(trials: list[TrialDocument]) -> None:
    if not trials:
        click.echo("no connector is enabled")
    rows = [
        (trial["key"], _WOULD.get(record["outcome"], record["outcome"]), *_place(record), _shortened(record["payload"]))
        for trial in trials
        if trial["kind"] == "source"
        for record in trial["records"]
    ]
    if rows:
        output.print_table(("source", "outcome", "destination", "partition", "record"), rows)
    read = [
        (
            trial["key"],
            _WOULD.get(record["outcome"], record["outcome"]),
            f"{record['stream']}/{record['topic']}, {record['partition']}:{record['offset']}",
            _shortened(record["payload"]) if record["reason"] is None else record["reason"],
        )
        for trial in trials
        if trial["kind"] == "sink"
        for record in trial["records"]
    ]
    if read:
        output.print_table(("sink", "outcome", "message", "record"), read)
    for trial in trials:
        for topic in trial["new_topics"]:
            is_source = trial["kind"] == "source"
            then = "would be created" if is_source else "does not exist yet: it is read when a source has created it"
            click.echo(f"{trial['key']}: the topic {topic['stream']}/{topic['topic']} {then}")
        for warning in trial["warnings"]:
            click.echo(f"{output.coloured('warn', 'yellow')}  {trial['key']}: {output.harmless(warning)}")
        if trial["error"] is not None:
            click.echo(f"{output.coloured('fail', 'red')}  {trial['key']}: {output.harmless(trial['error'])}")
        elif not trial["records"] and not trial["new_topics"]:
            text = "the poll has returned no records" if trial["kind"] == "source" else "its topics have no messages"
            click.echo(f"{trial['key']}: {text}")


def _place(record: TriedRecordDocument) -> tuple[str, str]:
    if record["stream"] is None:
        return record["reason"] or "-", "-"
    if record["partition"] is not None:
        partition = str(record["partition"])
    else:
        partition = f"by key {record['key']}" if record["key"] is not None else "any"
    return f"{record['stream']}/{record['topic']}", partition


def _shortened(payload: str) -> str:
    return payload if len(payload) <= _SHOWN_CHARACTERS else f"{payload[:_SHOWN_CHARACTERS]}..."
