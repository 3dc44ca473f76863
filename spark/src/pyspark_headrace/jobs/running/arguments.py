"""Arguments of a job, declared as fields of a dataclass like the options of the data source."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields
from typing import Any, Final, TypeVar, cast

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.values import Unsuitable

_T = TypeVar("_T")
_C = TypeVar("_C")
_ARGUMENT: Final = "argument"
_HIDDEN: Final = "..."


class ArgumentError(ValueError):
    """Arguments are invalid, or contradict each other. Nothing was started."""


def argument(
    *flags: str,
    parse: Callable[[str], _T] = cast("Any", str),  # noqa: B008 - `str` under another type
    default: _T | None = None,
    required: bool = False,
    help: str,  # noqa: A002 - as in argparse
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
    described = {
        _ARGUMENT: {
            "flags": flags,
            "parse": parse,
            "help": help,
            "metavar": metavar,
            "choices": choices,
            "secret": secret,
        }
    }
    if required:
        return cast("_T", field(metadata=described))
    return cast("_T", field(default=default, metadata=described))


def build_parser(kind: type[Any], prog: str | None, summary: str) -> argparse.ArgumentParser:
    """Create the parser for the arguments of a configuration."""
    parser = argparse.ArgumentParser(prog=prog, description=_sentence(summary), allow_abbrev=False)
    add_arguments(parser, kind)
    return parser


def add_arguments(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    """Add the arguments of a configuration to a parser."""
    for part in _arguments(kind):
        about = part.metadata[_ARGUMENT]
        about_it = _with_default(about["help"], None if _is_switch(part) else part.default)
        flags = about["flags"] or (f"--{part.name.replace('_', '-')}",)
        if _is_switch(part):
            action = argparse.BooleanOptionalAction if part.default is True else "store_true"
            parser.add_argument(
                *flags,
                dest=part.name,
                action=action,
                default=argparse.SUPPRESS,
                help=_with_default(about["help"], None),
            )
            continue
        parser.add_argument(
            *flags,
            dest=part.name,
            # Choices are checked by argparse, whose error names them.
            type=_converted(about["parse"]),
            # Defaults come from the dataclass.
            default=argparse.SUPPRESS,
            required=part.default is MISSING,
            choices=about["choices"],
            metavar=about["metavar"],
            help=about_it,
        )


def parsed(kind: type[_C], argv: Sequence[str], prog: str | None = None, summary: str = "") -> _C:
    """Parse arguments.

    Raises:
        SystemExit: The arguments are wrong (2; the reason was written to stderr), or request help (0).
    """
    parser = build_parser(kind, prog, summary)
    found = parser.parse_args(argv)
    try:
        config = kind(**vars(found))
        checked = getattr(config, "checked", None)
        return cast("_C", config if checked is None else checked())
    except (ArgumentError, OptionError) as error:
        parser.error(str(error))


def shown(config: object) -> dict[str, str]:
    """Return the arguments of a job for its log: those different from the defaults, without secrets."""
    values = {}
    for part in _arguments(type(config)):
        value = getattr(config, part.name)
        if value != part.default:
            values[part.name] = _HIDDEN if part.metadata[_ARGUMENT]["secret"] else str(value)
    return values


def _arguments(kind: type[Any]) -> list[Field[Any]]:
    return [part for part in fields(kind) if _ARGUMENT in part.metadata]


def _is_switch(part: Field[Any]) -> bool:
    return part.type in {bool, "bool"}


def _converted(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except Unsuitable as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from None
        except (ArgumentError, OptionError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _with_default(text: str, default: object) -> str:
    # argparse formats this text, so percent signs are doubled.
    text = text.replace("%", "%%")
    is_shown = default is not MISSING and default not in {None, ""} and not isinstance(default, frozenset)
    return f"{text} ({default})".replace("%)", "%%)") if is_shown else text


def _sentence(summary: str) -> str:
    return summary[:1].upper() + summary[1:].removesuffix(".") + "." if summary else ""
