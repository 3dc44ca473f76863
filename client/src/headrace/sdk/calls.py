"""Calls of the binary protocol: an encoded request each, and how its answer is decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import headrace_core as core
from headrace.sdk.errors import InvalidArgument, NotFound

Value = TypeVar("Value")
Name = int | str
"""A stream, topic, group or user, by its number or by its name."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Value]):
    """A request with the conversion of its answer."""

    code: int
    payload: bytes
    decode: Callable[[bytes], Value]
    repeats: bool
    """True if it is sent again when the connection breaks before the answer: executing it twice changes nothing."""


def reading(encoded: tuple[int, bytes], decode: Callable[[bytes], Value]) -> Call[Value]:
    """Return a call that changes nothing."""
    return Call(*encoded, decode, repeats=True)


def changing(encoded: tuple[int, bytes], decode: Callable[[bytes], Value]) -> Call[Value]:
    """Return a call that changes something."""
    return Call(*encoded, decode, repeats=False)


def nothing(_answer: bytes) -> None:
    """Decode an answer without content."""


def found(decode: Callable[[bytes], Value | None], what: str) -> Callable[[bytes], Value]:
    """Return a decoder that raises `NotFound` where the server answers that there is nothing."""

    def decoded(answer: bytes) -> Value:
        value = decode(answer) if answer else None
        if value is None:
            raise NotFound(f"there is no {what}", retryable=False)
        return value

    return decoded


def encoded(encode: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
    """Encode a command.

    Raises:
        InvalidArgument: A value cannot be sent.
    """
    try:
        return encode()
    except core.CodecError as error:
        raise InvalidArgument(str(error)) from None
    except (OverflowError, TypeError) as error:
        raise InvalidArgument(str(error)) from None
