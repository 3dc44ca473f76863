"""`headrace config check | show | reference | schema`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import output
from headrace.embedded.config import REFERENCE_INTRODUCTION, EmbeddedConfig
from headrace.service_settings import SERVICES, Service, file_problems
from headrace_settings import SettingsError, json_schema, to_markdown, to_toml

app = typer.Typer(name="config", help="The settings of a service, without starting it.", no_args_is_help=True)

FileOption = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="HEADRACE_CONFIG", help="TOML file with settings.")
]
ServiceOption = Annotated[
    Service, typer.Option("--service", "-s", help="Whose settings: of `headrace up`, or of a process of a cluster.")
]


@app.command()
def check(
    file: FileOption = None,
    service: ServiceOption = Service.EMBEDDED,
    with_files: Annotated[
        bool,
        typer.Option("--files", help="Look at the certificates that are named, too; on the service's own machine."),
    ] = False,
) -> None:
    """Check file and environment; everything that is wrong is listed, and the status is 1."""
    loaded = SERVICES[service].load(file, os.environ)
    problems = file_problems(loaded) if with_files else []
    if problems:
        raise SettingsError(problems)
    output.stdout().print(f"the settings are right; {len(loaded.origins)} differ from the defaults or repeat them")


@app.command()
def show(file: FileOption = None, service: ServiceOption = Service.EMBEDDED) -> None:
    """Print the effective settings as TOML, each with its origin; secrets are left out."""
    loaded = SERVICES[service].load(file, os.environ)
    typer.echo(to_toml(loaded.config, origins=loaded.origins), nl=False)


@app.command()
def reference(service: ServiceOption = Service.EMBEDDED) -> None:
    """Print every setting with its variable, default and meaning, as Markdown."""
    settings = SERVICES[service]
    page = reference_page() if service is Service.EMBEDDED else to_markdown(settings.model, prefix=settings.prefix)
    typer.echo(page, nl=False)


@app.command()
def schema(service: ServiceOption = Service.EMBEDDED) -> None:
    """Print the JSON schema of the TOML file."""
    typer.echo(json.dumps(json_schema(SERVICES[service].model), indent=2))


def reference_page() -> str:
    """What `docs/configuration.md` holds."""
    return f"{REFERENCE_INTRODUCTION}\n{to_markdown(EmbeddedConfig)}"
