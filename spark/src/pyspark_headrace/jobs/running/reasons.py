"""Why a job has failed, in the words of whoever has noticed it first."""

from __future__ import annotations

import re
from typing import Final

_TRACE: Final = "Traceback (most recent call last):\n"
# What follows the lines of a traceback, all of which are indented; then come Spark's own lines.
_RAISED: Final = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*): (.*?)(?=\n\s*\n|\n?\s*\tat |\n SQLSTATE|\Z)", re.MULTILINE | re.DOTALL
)


def reason(error: BaseException) -> str:
    """Type and text of an error; where Spark has wrapped one of a Python process, of that one.

    Spark's own texts begin with pages of where it was, behind which nobody would look for the reason.
    """
    text = str(error)
    _, trace, last = text.rpartition(_TRACE)
    found = _RAISED.search(last) if trace else None
    return f"{type(error).__name__}: {text}" if found is None else f"{found[1]}: {found[2].strip()}"
