"""`headrace config check | show | reference | schema`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from headrace.cli import output
from headrace.cli.family import family
from headrace_embedded.config import RENAMED, EmbeddedConfig
from headrace_embedded.service_settings import SERVICES, Service, file_problems
from headrace_settings import SettingsError, json_schema, settings_of, to_comparison, to_markdown, to_toml
from headrace_settings.loading.iggy import mapping

_INTRODUCTION: Final = """\
# Settings

Written by `make generate` from the configuration models: do not edit. `headrace config reference` prints it.

The value of a setting comes from the first of these sources that has it: an option of `headrace up`, an environment
variable, the TOML file (`--config` or `HEADRACE_CONFIG`), the default. An unknown or invalid setting prevents the
start. An empty variable counts as unset. Lists in variables are written `[a, b]`. A secret `x` may be given as
`x_file`, the path of a file that contains it.

The tables have a column for each kind of process, with its default; where it is empty, the process does not have the
setting. The variables of a process begin with its prefix; a row has that of its first process. `headrace config check
--service SERVICE` checks settings without a start, and `headrace config reference --service SERVICE` prints those of
one service alone.

| `SERVICE` | process | prefix |
| --- | --- | --- |
{processes}
"""


def config_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--config`, the file with settings, as a parameter `file`."""
    return click.option(
        "--config",
        "-c",
        "file",
        envvar="HEADRACE_CONFIG",
        type=click.Path(path_type=Path),
        help="TOML file with settings; environment variables take precedence.",
    )(function)


def _service_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--service",
        "-s",
        type=click.Choice([service.value for service in Service]),
        default=Service.EMBEDDED.value,
        show_default=True,
        help="Service that the settings belong to: embedded (`headrace up`), or a service of a cluster.",
    )(function)


@family("config", "Check and show the settings of a service without starting it.")
def app() -> None:
    """Do nothing: the work is in the commands."""


@app.command()
@config_option
@_service_option
@click.option(
    "--files",
    "with_files",
    is_flag=True,
    help="Also check the certificate files that the settings name; run this on the service's machine.",
)
def check(file: Path | None, service: str, with_files: bool) -> None:
    """Check the settings in the file and the environment; list all errors, and exit with status 1 if there are any."""
    loaded = SERVICES[Service(service)].load(file, os.environ)
    for warning in loaded.warnings:
        output.say(f"warning: {warning}")
    problems = file_problems(loaded) if with_files else []
    if problems:
        raise SettingsError(problems)
    click.echo(f"the settings are valid; {len(loaded.origins)} are set explicitly, all others have their defaults")


@app.command()
@config_option
@_service_option
def show(file: Path | None, service: str) -> None:
    """Print the effective settings as TOML, each with its origin; secrets are omitted."""
    loaded = SERVICES[Service(service)].load(file, os.environ)
    click.echo(to_toml(loaded.config, origins=loaded.origins), nl=False)


@app.command()
@_service_option
def reference(service: str) -> None:
    """Print every setting with its environment variable, default and description, as Markdown.

    For the embedded server, the page has the settings of all services.
    """
    settings = SERVICES[Service(service)]
    page = reference_page() if service == Service.EMBEDDED else to_markdown(settings.model, prefix=settings.prefix)
    click.echo(page, nl=False)


@app.command()
@_service_option
def schema(service: str) -> None:
    """Print the JSON schema of the TOML file with settings."""
    click.echo(json.dumps(json_schema(SERVICES[Service(service)].model), indent=2))


def reference_page() -> str:
    """Return the contents of `docs/configuration.md`."""
    processes = "\n".join(f"| `{name}` | {one.process} | `{one.prefix}_` |" for name, one in SERVICES.items())
    tables = to_comparison({name.value: (one.model, one.prefix) for name, one in SERVICES.items()})
    return f"{_INTRODUCTION.format(processes=processes)}\n{tables}\n{_iggy_variables()}"


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
