"""Arguments of a job: fields of a dataclass, as options of the data source are."""

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
    """Arguments are wrong, alone or together; nothing was started."""


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
    """Make a field that is an argument.

    A field of type bool is a switch: ``--field``, and ``--no-field`` where it is true unless said.

    Args:
        flags: How it is written; ``--the-field`` unless said.
        parse: What its text means; wrong ones raise `Unsuitable`, `OptionError` or `ValueError`.
        default: Without the argument.
        required: There is no default.
        help: What it is, for ``--help``.
        metavar: What stands for its value there.
        choices: The texts that there are.
        secret: Its value is not shown when the job says what it was given.
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
    """Make the parser of a configuration's arguments."""
    parser = argparse.ArgumentParser(prog=prog, description=_sentence(summary), allow_abbrev=False)
    add_arguments(parser, kind)
    return parser


def add_arguments(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    """Have a parser take a configuration's arguments."""
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
            # Choices are looked at by argparse, which then names them.
            type=_converted(about["parse"]),
            # The dataclass has the defaults.
            default=argparse.SUPPRESS,
            required=part.default is MISSING,
            choices=about["choices"],
            metavar=about["metavar"],
            help=about_it,
        )


def parsed(kind: type[_C], argv: Sequence[str], prog: str | None = None, summary: str = "") -> _C:
    """Read arguments.

    Raises:
        SystemExit: They are wrong (2; the reason is on stderr by then), or ask for help (0).
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
    """What a job was given, for its log: what is not as usual, without secrets."""
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
    # What argparse formats needs its percent signs doubled.
    text = text.replace("%", "%%")
    return text if default is MISSING or default in {None, ""} else f"{text} ({default})".replace("%)", "%%)")


def _sentence(summary: str) -> str:
    return summary[:1].upper() + summary[1:].removesuffix(".") + "." if summary else ""
