"""Arguments of a job, declared as fields of a dataclass like the options of the data source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, field, fields
from typing import Any, Final, TypeVar, cast

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.values import Unsuitable

DONE: Final = 0
"""Exit code: the job is done, or was stopped on request after finishing its current work."""
WRONG_ARGUMENTS: Final = 2
"""Exit code: the arguments are wrong, and nothing was started."""
_STATUSES: Final = "Exit status: 0 done or stopped, 1 failure, 2 wrong arguments, 3 findings."
SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

_T = TypeVar("_T")
_C = TypeVar("_C")
_ARGUMENT: Final = "argument"
_FILE: Final = "FILE"
_HIDDEN: Final = "..."


class ArgumentError(ValueError):
    """Arguments are invalid, or contradict each other. Nothing was started."""


def argument(
    *flags: str,
    parse: Callable[[str], _T] = cast("Any", str),  # noqa: B008 - `str` under another type
    default: _T | None = None,
    required: bool = False,
    help: str,  # noqa: A002 - as in click
    metavar: str | None = None,
    choices: Sequence[str] | None = None,
    secret: bool = False,
) -> _T:
    """Declare a field as an argument.

    A field of type bool is a switch: ``--field``, and ``--no-field`` if the default is true.

    Args:
        flags: Option strings; default: ``--the-field``.
        parse: Parser of the text; raises `Unsuitable`, `OptionError` or `ValueError`.
        default: Value if the argument is missing.
        required: The argument must be given.
        help: Description for ``--help``.
        metavar: Placeholder of the value for ``--help``.
        choices: Allowed texts.
        secret: Hide the value when the job logs its arguments.
    """

    def option(part: Field[Any]) -> click.Option:
        name = f"--{part.name.replace('_', '-')}"
        names = flags or ((f"{name}/--no-{name[2:]}" if default is True else name),)
        if part.type in {bool, "bool"}:
            return click.Option([part.name, *names], is_flag=True, default=bool(default), help=sentence(help))
        # The value itself comes from the dataclass.
        is_shown = default not in {None, ""} and not isinstance(default, frozenset | tuple)
        about = sentence(help) + (f"  [default: {default}]" if is_shown else "")
        return click.Option(
            [part.name, *names],
            type=click.Choice(choices) if choices is not None else _Parsed(parse, metavar == _FILE),
            required=required,
            metavar=metavar,
            help=about,
        )

    described = {_ARGUMENT: option, "secret": secret}
    if required:
        return cast("_T", field(metadata=described))
    return cast("_T", field(default=default, metadata=described))


class _Parsed(click.ParamType[Any]):
    """Value of a parser of texts."""

    name = "value"

    def __init__(self, parse: Callable[[str], Any], is_file: bool) -> None:
        self._parse = parse
        self._is_file = is_file

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the text."""
        try:
            return self._parse(value)
        except Unsuitable as error:
            self.fail(f"{value!r} is not {error}", param, ctx)
        except (ArgumentError, OptionError, ValueError) as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Have the shell complete names of files."""
        return [CompletionItem(incomplete, type="file")] if self._is_file else []


def sentence(phrase: str) -> str:
    """Return a phrase as a sentence."""
    first = phrase.partition(" ")[0]
    return f"{first.capitalize() if first.islower() else first}{phrase[len(first) :]}." if phrase else ""


def command_of(kind: type[Any], name: str, summary: str) -> click.Command:
    """Create the command with the arguments of a configuration; it returns the ones that were given."""

    def given(**values: Any) -> dict[str, Any]:
        source = click.get_current_context().get_parameter_source
        return {name: value for name, value in values.items() if source(name) == ParameterSource.COMMANDLINE}

    options: list[click.Parameter] = [part.metadata[_ARGUMENT](part) for part in _arguments(kind)]
    return click.Command(
        name, params=options, callback=given, help=sentence(summary), epilog=_STATUSES, context_settings=SETTINGS
    )


def parsed(kind: type[_C], argv: Sequence[str], program: str = "", summary: str = "") -> _C:
    """Parse arguments.

    Raises:
        SystemExit: The arguments are wrong (2; the reason was written to stderr), or request help (0).
    """
    config = kind(**run(command_of(kind, program, summary), argv, program))
    checked = getattr(config, "checked", None)
    try:
        return cast("_C", config if checked is None else checked())
    except (ArgumentError, OptionError) as error:
        raise SystemExit(refused(str(error), program)) from None


def run(command: click.Command, argv: Sequence[str], program: str) -> Any:
    """Run a command, with the same words for mistakes as the command line of Headrace.

    Raises:
        SystemExit: The arguments are wrong, or request help.
    """
    try:
        with command.make_context(program, list(argv)) as context:
            return command.invoke(context)
    except click.exceptions.Exit as end:
        raise SystemExit(end.exit_code) from None
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        raise SystemExit(WRONG_ARGUMENTS) from None
    except click.UsageError as error:
        raise SystemExit(refused(_mistake(error), program)) from None


def refused(message: str, program: str) -> int:
    """Say on stderr what is wrong with the arguments; returns the exit code."""
    click.secho("error:", fg="red", bold=True, nl=False, err=True)
    click.echo(f" {message}\n`{program} --help` shows what there is", err=True)
    return WRONG_ARGUMENTS


def _mistake(error: click.UsageError) -> str:
    match error:
        case click.MissingParameter(param=click.Parameter() as option):
            return f"{max(option.opts, key=len)} is missing"
        case click.NoSuchOption():
            similar = f": did you mean {' or '.join(error.possibilities)}?" if error.possibilities else ""
            return f"there is no option {error.option_name}{similar}"
        case click.BadOptionUsage():
            return error.message[:1].lower() + error.message[1:].rstrip(".")
        case click.BadParameter(param=click.Parameter() as option):
            return f"{max(option.opts, key=len)}: {error.message}"
        case _:
            return error.message


def shown(config: object) -> dict[str, str]:
    """Return the arguments of a job for its log: those different from the defaults, without secrets."""
    values = {}
    for part in _arguments(type(config)):
        value = getattr(config, part.name)
        if value != part.default:
            values[part.name] = _HIDDEN if part.metadata["secret"] else str(value)
    return values


def _arguments(kind: type[Any]) -> list[Field[Any]]:
    return [part for part in fields(kind) if _ARGUMENT in part.metadata]
