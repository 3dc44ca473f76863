"""Values that never appear in a dump, a log or a traceback."""

from __future__ import annotations

from typing import ClassVar, Final, Self

from headrace_settings.units.quantity import Quantity

REDACTED = "[redacted]"


_GUESSABLE_BYTES: Final = 16


class Secret(Quantity):
    """A password, key or token. Printing it shows a placeholder; ``reveal()`` is the one way to the text.

    A secret setting ``x`` can also be given as ``x_file`` (environment: ``X_FILE``): the path of a file that
    holds it. One trailing line break is dropped.
    """

    __slots__ = ("_text",)

    ALLOWED: ClassVar[str] = "text, or the same name with _file and the path of a file that holds it"
    EXAMPLES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take the text unchanged."""
        return cls(text)

    @classmethod
    def from_setting(cls, value: object) -> Self:
        """Take text unchanged, including blanks, which may be part of a password."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)
        raise ValueError("a secret is text")

    def reveal(self) -> str:
        """Return the text itself. Never log the result."""
        return self._text

    @property
    def is_guessable(self) -> bool:
        """True for fewer than 16 bytes, which callers from a network might find by trying."""
        return len(self._text.encode()) < _GUESSABLE_BYTES

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

    def __str__(self) -> str:
        return REDACTED

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"
