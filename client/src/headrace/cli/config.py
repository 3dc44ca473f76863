"""`headrace config check | show | reference | schema`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import output
from headrace.embedded.config import REFERENCE_INTRODUCTION, EmbeddedConfig, load_config
from headrace_settings import json_schema, to_markdown, to_toml

app = typer.Typer(name="config", help="The server's settings, without starting it.", no_args_is_help=True)

FileOption = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="HEADRACE_CONFIG", help="TOML file with settings.")
]


@app.command()
def check(file: FileOption = None) -> None:
    """Check file and environment; everything that is wrong is listed."""
    loaded = load_config(file, os.environ)
    output.stdout().print(f"the settings are right; {len(loaded.origins)} differ from the defaults or repeat them")


@app.command()
def show(file: FileOption = None) -> None:
    """Print the effective settings as TOML, each with its origin; secrets are left out."""
    loaded = load_config(file, os.environ)
    typer.echo(to_toml(loaded.config, origins=loaded.origins), nl=False)


@app.command()
def reference() -> None:
    """Print every setting with its variable, default and meaning, as Markdown."""
    typer.echo(reference_page(), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of the TOML file."""
    typer.echo(json.dumps(json_schema(EmbeddedConfig), indent=2))


def reference_page() -> str:
    """What `docs/configuration.md` holds."""
    return f"{REFERENCE_INTRODUCTION}\n{to_markdown(EmbeddedConfig)}"
