"""The command line: every command by name, and how failures end it."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from headrace.cli import (
    bench,
    completion,
    config,
    groups,
    metadata,
    output,
    ping,
    poll,
    send,
    stats,
    streams,
    topics,
    up,
)
from headrace.embedded.errors import EmbeddedError
from headrace.metadata_connection import MetadataError
from headrace_core import CoreError, ServerError
from headrace_settings import SettingsError

app = typer.Typer(
    name="headrace",
    help="Headrace: a persistent, partitioned message log.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up.up)
app.command()(ping.ping)
app.add_typer(streams.app)
app.add_typer(topics.app)
app.add_typer(groups.app)
app.command()(send.send)
app.command()(poll.poll)
app.command()(stats.stats)
app.command()(bench.bench)
app.add_typer(config.app)
app.add_typer(metadata.app)
app.command()(completion.completion)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def headrace(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Headrace: a persistent, partitioned message log."""


def main() -> None:
    """Run the command line; failures that a user can mend end it with one message and status 1."""
    try:
        app()
    except ServerError as error:
        _fail(f"the server refused: {error}")
    except SettingsError as error:
        _fail(f"{len(error.problems)} wrong setting(s)\n{error}")
    except (EmbeddedError, CoreError, MetadataError) as error:
        _fail(str(error))
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter must not complain about it at its end.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str) -> None:
    output.stderr().print(f"[bold red]error:[/] {escape(message)}")
    sys.exit(1)
