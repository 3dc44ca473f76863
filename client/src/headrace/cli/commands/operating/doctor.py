"""`headrace doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from headrace.cli import output
from headrace.cli.diagnosis import machine, partition_files, ports, server
from headrace.cli.documents import CheckDocument
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.servers.target import Target

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@click.option(
    "--data",
    "-d",
    type=click.Path(path_type=Path),
    default=Path("local_data"),
    show_default=True,
    help="Data directory whose disk and files are checked; it need not exist.",
)
@click.option("--no-server", is_flag=True, help="Check this machine alone, before there is a server.")
@with_target
@with_form
def app(target: Target, form: Form, data: Path, no_server: bool) -> None:
    """Check this machine, and whether a server can be reached.

    Each line is ok, warn or fail, with what to do. The exit status is 1 if a check failed.
    """
    found = [
        *machine.checks(data),
        *ports.checks(None if no_server else target.address),
        *partition_files.checks(data),
        *(() if no_server else server.checks(target)),
    ]
    output.show(form, found, lambda: _print(found))
    if any(check["verdict"] == "fail" for check in found):
        raise click.exceptions.Exit(1)


def _print(found: list[CheckDocument]) -> None:
    width = max(len(check["check"]) for check in found)
    for check in found:
        verdict = output.coloured(f"{check['verdict']:<4}", _COLOURS[check["verdict"]])
        indent = width + 8
        click.echo(f"{verdict}  {check['check']:<{width}}  {output.paragraph(check['found'], indent=indent)}")
        if check["advice"]:
            click.echo(f"{'':<{indent}}{output.paragraph(check['advice'], indent=indent)}")
