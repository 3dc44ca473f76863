"""`headrace config check | show | reference | schema`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import output
from headrace.embedded.config import REFERENCE_INTRODUCTION, RENAMED, EmbeddedConfig
from headrace.service_settings import SERVICES, Service, file_problems
from headrace_settings import SettingsError, json_schema, settings_of, to_markdown, to_toml
from headrace_settings.loading.iggy import mapping

app = typer.Typer(
    name="config", help="Check and show the settings of a service without starting it.", no_args_is_help=True
)

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="HEADRACE_CONFIG",
        help="TOML file with settings; environment variables take precedence.",
    ),
]
ServiceOption = Annotated[
    Service,
    typer.Option(
        "--service",
        "-s",
        help="Service that the settings belong to: embedded (`headrace up`), or a service of a cluster.",
    ),
]


@app.command()
def check(
    file: FileOption = None,
    service: ServiceOption = Service.EMBEDDED,
    with_files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="Also check the certificate files that the settings name; run this on the service's machine.",
        ),
    ] = False,
) -> None:
    """Check the settings in the file and the environment; list all errors, and exit with status 1 if there are any."""
    loaded = SERVICES[service].load(file, os.environ)
    for warning in loaded.warnings:
        output.stderr().print(f"warning: {warning}", markup=False, soft_wrap=True)
    problems = file_problems(loaded) if with_files else []
    if problems:
        raise SettingsError(problems)
    output.stdout().print(
        f"the settings are valid; {len(loaded.origins)} are set explicitly, all others have their defaults"
    )


@app.command()
def show(file: FileOption = None, service: ServiceOption = Service.EMBEDDED) -> None:
    """Print the effective settings as TOML, each with its origin; secrets are omitted."""
    loaded = SERVICES[service].load(file, os.environ)
    typer.echo(to_toml(loaded.config, origins=loaded.origins), nl=False)


@app.command()
def reference(service: ServiceOption = Service.EMBEDDED) -> None:
    """Print every setting with its environment variable, default and description, as Markdown."""
    settings = SERVICES[service]
    page = reference_page() if service is Service.EMBEDDED else to_markdown(settings.model, prefix=settings.prefix)
    typer.echo(page, nl=False)


@app.command()
def schema(service: ServiceOption = Service.EMBEDDED) -> None:
    """Print the JSON schema of the TOML file with settings."""
    typer.echo(json.dumps(json_schema(SERVICES[service].model), indent=2))


def reference_page() -> str:
    """Return the contents of `docs/configuration.md`."""
    return f"{REFERENCE_INTRODUCTION}\n{to_markdown(EmbeddedConfig)}\n{_iggy_variables()}"


def _iggy_variables() -> str:
    lines = [
        "## Environment variables of Iggy",
        "",
        "The environment variables of an Iggy server keep working. A variable with an equivalent setting sets that",
        "setting; if the setting's own variable is present as well, the latter takes precedence. A variable without an",
        "equivalent is reported in a warning at the start, and by `headrace config check`. Each service of a cluster",
        "reads the variables that it has a setting for.",
        "",
        "| variable | setting | replacement |",
        "| --- | --- | --- |",
    ]
    for variable, setting, instead in mapping(settings_of(EmbeddedConfig), renamed=RENAMED):
        lines.append(f"| `{variable}` | {f'`{setting}`' if setting else 'none'} | {'' if setting else instead} |")
    return "\n".join([*lines, ""])
