"""The command line: registry of all commands, and reporting of failures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from typer.core import TyperGroup

from headrace.cli import output
from headrace.embedded.errors import EmbeddedError
from headrace.metadata_connection import MetadataError
from headrace_core import CoreError, ServerError
from headrace_settings import SettingsError

# Commands by name, in the order of the help, with the module that implements them: as a function of that name, or as a
# Typer group called `app`.
_GROUPS: Final = frozenset({"stream", "topic", "group", "client", "config", "metadata"})
_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "up": "up",
        "ping": "ping",
        "stream": "streams",
        "topic": "topics",
        "group": "groups",
        "send": "send",
        "poll": "poll",
        "client": "clients",
        "stats": "stats",
        "audit": "audit",
        "bench": "bench",
        "config": "config",
        "metadata": "metadata",
        "completion": "completion",
    }
)


class _Commands(TyperGroup):
    """Imports a command on first use: the server's dependencies take longer to import than most commands to run."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - they are the same everywhere
        return list(_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - they are the same everywhere
        if cmd_name in _MODULES:
            return self._imported(cmd_name)
        # For an unknown command, suggest the most similar known one.
        for name in _MODULES:
            self._imported(name)
        return None

    def _imported(self, name: str) -> Any:
        if name not in self.commands:
            module = import_module(f"headrace.cli.commands.{_MODULES[name]}")
            if name in _GROUPS:
                self.commands[name] = typer.main.get_group(module.app)
            else:
                alone = typer.Typer(add_completion=False)
                alone.command(name)(getattr(module, name))
                self.commands[name] = typer.main.get_command(alone)
        return self.commands[name]


app = typer.Typer(
    name="headrace",
    cls=_Commands,
    help="Headrace: a persistent, partitioned message log.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def headrace(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Headrace: a persistent, partitioned message log."""


def main() -> None:
    """Run the command line; failures that a user can fix end it with one message and status 1."""
    try:
        app()
    except ServerError as error:
        _fail(f"the server refused: {error}")
    except SettingsError as error:
        _fail(f"{len(error.problems)} wrong setting(s)\n{error}")
    except (EmbeddedError, CoreError, MetadataError) as error:
        _fail(str(error))
    except BrokenPipeError:
        # The reader has closed the pipe; suppress the interpreter's complaint at exit.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str) -> None:
    output.stderr().print(f"[bold red]error:[/] {escape(message)}")
    sys.exit(1)
