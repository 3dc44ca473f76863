"""Running of a command, and the one form in which all failures are reported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from headrace.cli import output
from headrace.cli.errors import CommandError, refusal
from headrace.cli.family import OTHER_OPTIONS
from headrace.cli.program import program
from headrace_core import CoreError, ServerError

INTERRUPTED: Final = 130
FAILED: Final = 1
WRONG_USAGE: Final = 2

_NAME: Final = "headrace"
# Failures of parts that are imported by few commands: modules, and names of their exceptions.
_EXPECTED: Final = (
    ("headrace_embedded.errors", "EmbeddedError"),
    ("headrace.metadata_connection", "MetadataError"),
)


def run(arguments: Sequence[str]) -> int:
    """Run a command, report its failure on standard error, and return the exit status.

    Args:
        arguments: The command line without the name of the program.

    Raises:
        BrokenPipeError: The reader of the output has closed it.
    """
    if "_HEADRACE_COMPLETE" in os.environ:
        program.main(args=list(arguments), prog_name=_NAME)
    try:
        with program.make_context(_NAME, list(arguments)) as context:
            program.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return WRONG_USAGE
    except click.UsageError as error:
        return _fail(f"{_usage_mistake(error)}\n{_advice(error, arguments)}", WRONG_USAGE)
    except click.ClickException as error:
        return _fail(error.format_message(), FAILED)
    except BrokenPipeError:
        raise
    except Exception as error:
        message = _expected(error)
        if message is None:
            raise
        return _fail(message, error.status if isinstance(error, CommandError) else FAILED)
    return 0


def _fail(message: str, status: int) -> int:
    """Print a failure. Its first line begins with ``error:``."""
    sys.stdout.flush()
    # It may quote names and texts of a server.
    shown = "\n".join(map(output.harmless, message.split("\n")))
    click.echo(output.coloured("error:", "red", bold=True) + f" {shown}", err=True)
    return status


def _expected(error: Exception) -> str | None:
    """Return the message of a failure that a user can correct; None for a defect of the program."""
    match error:
        case ServerError():
            return refusal(error)
        case CommandError() | CoreError():
            return str(error)
        case OSError():
            return _system_error(error)
    for module, name in _EXPECTED:
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
            return str(error)
    settings = sys.modules.get("headrace_settings")
    if settings is not None and isinstance(error, settings.SettingsError):
        return f"{len(error.problems)} wrong setting(s)\n{error}"
    return None


def _system_error(error: OSError) -> str:
    if error.filename is None:
        return str(error)
    return f"{error.filename}: {error.strerror or error}"


def _usage_mistake(error: click.UsageError) -> str:
    """Return what is wrong with the command line, named as its user typed it."""
    match error:
        case click.MissingParameter(param=click.Argument() as argument):
            return f"{argument.make_metavar(_context(error))} is missing"
        case click.MissingParameter(param=click.Parameter() as option):
            return f"{option.opts[0]} is missing"
        case click.NoSuchOption():
            return f"there is no option {error.option_name}{_similar(_options_like(error))}"
        case click.BadOptionUsage():
            return error.message[:1].lower() + error.message[1:].rstrip(".")
        case click.BadParameter(param=click.Option() as option):
            return f"{max(option.opts, key=len)}: {error.message}"
        case click.BadParameter(param=click.Argument() as argument):
            return f"{argument.make_metavar(_context(error)).strip('[].')}: {error.message}"
        case _:
            return error.message


def _context(error: click.UsageError) -> click.Context:
    return error.ctx or click.Context(program)


def _options_like(error: click.NoSuchOption) -> Sequence[str]:
    """Return the options that may be meant: those that other systems call so, or else those with similar names."""
    there = {name for option in _context(error).command.params for name in option.opts}
    meant = [other for other in OTHER_OPTIONS.get(error.option_name, ()) if other.split()[0] in there]
    return meant or error.possibilities or ()


def _similar(names: Sequence[str]) -> str:
    return f": did you mean {' or '.join(names)}?" if names else ""


def _advice(error: click.UsageError, arguments: Sequence[str]) -> str:
    path = error.ctx.command_path if error.ctx is not None else _path(arguments)
    return f"`{path} --help` shows what there is"


def _path(arguments: Sequence[str]) -> str:
    """Return the command that was typed; the parser of options does not say which one it was working for."""
    words, context = [_NAME], click.Context(program)
    command: click.Command = program
    for word in arguments:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            break
        words.append(word)
        command = found
    return " ".join(words)
