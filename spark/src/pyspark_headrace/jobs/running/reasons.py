"""Failure reason of a job, in the words of the original error."""

from __future__ import annotations

import re
from typing import Final

_TRACE: Final = "Traceback (most recent call last):\n"
# Last line of a traceback: the lines before it are indented, and Spark's own lines follow.
_RAISED: Final = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*): (.*?)(?=\n\s*\n|\n?\s*\tat |\n SQLSTATE|\Z)", re.MULTILINE | re.DOTALL
)


def reason(error: BaseException) -> str:
    """Return type and text of an error. An error of a Python process that Spark has wrapped is unwrapped.

    Spark's own text starts with long stack traces that hide the reason.
    """
    text = str(error)
    _, trace, last = text.rpartition(_TRACE)
    found = _RAISED.search(last) if trace else None
    return f"{type(error).__name__}: {text}" if found is None else f"{found[1]}: {found[2].strip()}"
