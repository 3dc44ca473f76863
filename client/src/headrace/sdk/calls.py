"""Calls of the binary protocol: an encoded request each, and how its answer is decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import headrace_core as core
from headrace.sdk.errors import (
    DeadlineExceeded,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    RequestRefused,
    native,
)
from headrace.sdk.results import value_of

Value = TypeVar("Value")
Name = int | str
"""A stream, topic, group or user, by its number or by its name."""

_NUMBER_MAX: Final = 2**32 - 1
_NAME_BYTES_MAX: Final = 255


def check_name(what: str, name: Name) -> None:
    """Check that a value can be a name or a number.

    Raises:
        InvalidArgument: It cannot.
    """
    match name:
        case bool():
            pass
        case int():
            if 0 <= name <= _NUMBER_MAX:
                return
            raise InvalidArgument(f"{what}: {name} is no number of one; they are 0 to {_NUMBER_MAX}")
        case str():
            length = len(name.encode(errors="replace"))
            if 1 <= length <= _NAME_BYTES_MAX:
                return
            raise InvalidArgument(f"{what}: a name has 1 to {_NAME_BYTES_MAX} bytes, this has {length}")
    raise InvalidArgument(f"{what}: {name!r} is neither a name nor a number")


@dataclass(frozen=True, slots=True)
class Call(Generic[Value]):
    """A request with the conversion of its answer."""

    code: int
    payload: bytes
    decode: Callable[[bytes], Value]
    repeats: bool
    """True if it is sent again when the connection breaks before the answer: executing it twice changes nothing."""
    about: Mapping[str, Name | None]
    """Names in the request, by kind, for its refusals."""

    def begin(self, requester: core.Requester, timeout: float) -> core.Pending:
        """Submit the request; a timeout of 0 is none."""
        return native(requester.submit, self.code, self.payload, repeats=self.repeats, timeout_seconds=timeout or None)

    def end(self, pending: core.Pending) -> Value:
        """Return the result of the request, which has ended."""
        try:
            answer = value_of(pending)
        except OutcomeUnknown as error:
            if self.repeats:
                # Nothing can have changed.
                raise DeadlineExceeded(str(error)) from None
            raise
        except RequestRefused as error:
            text = str(error)
            missing = {kind: name for kind, name in self.about.items() if name is not None and repr(name) not in text}
            # A missing permission is named with its place, in the form of the command line.
            if not missing or isinstance(error, PermissionDenied):
                raise
            named = ", ".join(f"{kind} {name!r}" for kind, name in missing.items())
            raise type(error)(f"{text} [{named}]", code=error.code, retryable=error.retryable) from None
        return self.decode(answer)


def reading(encoded: tuple[int, bytes], decode: Callable[[bytes], Value], **about: Name | None) -> Call[Value]:
    """Return a call that changes nothing; `about` is what it names, by kind."""
    return Call(*encoded, decode, repeats=True, about=about)


def changing(encoded: tuple[int, bytes], decode: Callable[[bytes], Value], **about: Name | None) -> Call[Value]:
    """Return a call that changes something; `about` is what it names, by kind."""
    return Call(*encoded, decode, repeats=False, about=about)


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
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(str(error)) from None
