"""Parser from Spark's options, which are case-insensitive text, to typed values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final, TypeVar, cast

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.values import Unsuitable, refused

_T = TypeVar("_T")
_NAME: Final = "option"
_PARSE: Final = "parse"
_SECRETS: Final = ("token", "password", "secret")
CHANNEL_PREFIX: Final = "grpc."
"""Prefix of options that are passed unchanged as channel arguments to the gRPC library."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """Base class of option sets. Fields of subclasses are declared with `option`."""

    channel_arguments: tuple[tuple[str, str | int], ...] = ()
    """Options that begin with ``grpc.``."""


_P = TypeVar("_P", bound=Parsed)


def option(name: str, parse: Callable[[str], _T], default: _T | None = None, *, required: bool = False) -> _T:
    """Declare a field as an option.

    Args:
        name: Documented name.
        parse: Parser of the text.
        default: Value if the option is missing.
        required: The option must be given.
    """
    metadata = {_NAME: name, _PARSE: parse}
    if required:
        return cast("_T", field(metadata=metadata))
    return cast("_T", field(default=default, metadata=metadata))


def option_names(kind: type[Parsed]) -> list[str]:
    """Return the names of all options of a class, in declaration order."""
    return [part.metadata[_NAME] for part in _options(kind)]


def parse(kind: type[_P], given: Mapping[str, str], *, ignored: Iterable[str] = ()) -> _P:
    """Parse options.

    Args:
        kind: Class of the options.
        given: Option texts by case-insensitive name.
        ignored: Names that Spark adds by itself.

    Raises:
        OptionError: An option is unknown, missing or invalid.
    """
    known = {part.metadata[_NAME].lower(): part for part in _options(kind)}
    unknown_to_us = {name.lower() for name in ignored}
    values: dict[str, Any] = {}
    arguments: list[tuple[str, str | int]] = []
    for name, text in given.items():
        part = known.get(name.lower())
        if part is not None:
            try:
                values[part.name] = part.metadata[_PARSE](text)
            except Unsuitable as error:
                raise refused(part.metadata[_NAME], text, error) from None
        elif name.lower().startswith(CHANNEL_PREFIX):
            arguments.append((name.lower(), int(text) if text.lstrip("-").isdigit() else text))
        elif name.lower() not in unknown_to_us:
            raise OptionError(_unknown(name, known))
    for part in known.values():
        if part.default is MISSING and part.name not in values:
            raise OptionError(f"option {part.metadata[_NAME]} is required")
    return kind(**values, channel_arguments=tuple(sorted(arguments)))


def _options(kind: type[Parsed]) -> list[Field[Any]]:
    return [part for part in fields(kind) if _NAME in part.metadata]


def _unknown(name: str, known: Mapping[str, Field[Any]]) -> str:
    if name.lower() in _SECRETS:
        return f"option {name}: secrets are not options, which Spark shows: use tokenFile, tokenEnv or passwordFile"
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    hint = f": did you mean {known[near[0]].metadata[_NAME]}?" if near else ""
    return f"unknown option {name}{hint}"
