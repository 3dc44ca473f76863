"""The standard streams: any text can be written to them, also to one that is closed."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Final

_ESCAPED: Final = "headrace.escaped"


def prepare() -> None:
    """Open what is closed, and have characters escaped that a terminal cannot show.

    A descriptor that is closed would be that of the next file or connection, and what is printed would go there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one. Programs that are started have it, too.
            opened = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            os.set_inheritable(opened, True)  # noqa: FBT003 - a parameter without a name
        if getattr(sys, name) is None:
            raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
            buffer = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
            setattr(sys, name, io.TextIOWrapper(buffer, encoding="utf-8"))
    codecs.register_error(_ESCAPED, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def is_unicode() -> bool:
    """Return whether standard output has all characters."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for characters of another encoding: the form of JSON, so that documents stay the same."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end
