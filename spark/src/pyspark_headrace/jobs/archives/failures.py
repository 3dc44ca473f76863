"""What stores say when something goes wrong, as far as people need it and may see it.

What libraries say has the whole answer of a store in it: among other things what it has computed a signature from, with
the token of a session. And it has URIs, which may be signed. Of all that only the kind of failure, the place, and the
answer's code and message are told on. So an error that one of these functions has made is raised `from None`.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from typing import Final

from obstore.exceptions import BaseError

FAILURES: Final = (BaseError, OSError, ValueError)
"""What obstore raises."""

_LENGTH_MAX: Final = 600
_DEBUG: Final = "\n\nDebug source:"
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")
_ANSWER: Final = re.compile(r"<(?:\?xml|Error|!doctype|html)\b.*", re.DOTALL | re.IGNORECASE)
_PARTS: Final = tuple(re.compile(f"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("Code", "Message"))
_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^\s/@]*@)?([^\s?]*)(?:\?\S*)?", re.IGNORECASE)
_SECRET: Final = re.compile(r"(?:AWS|AZURE|GOOGLE)_.*(?:KEY|SECRET|TOKEN|SAS|PASSWORD)")
_NAMES: Final = ("_FILE", "_URI", "_URL", "_KEY_ID")
"""Of variables that tell where a secret is, or whose."""
_SHORT: Final = 6
_NO_SUCH_PLACE: Final = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")
_OF_MACHINES: Final = ("169.254.169.254", "169.254.170.", "metadata.google.internal", "metadata/identity")
"""Whom a library asks for credentials that has found none in the environment."""


def said(error: BaseException) -> str:
    """What an error says, without secrets."""
    text = _COLOURS.sub("", str(error).split(_DEBUG, maxsplit=1)[0]).strip()
    text = bare(_ANSWER.sub(_short, text))
    text = _without(os.environ, " ".join(text.split()))[:_LENGTH_MAX]
    if any(part in text for part in _OF_MACHINES):
        return f"there are no credentials, neither in the environment nor from this machine ({text})"
    return text or type(error).__name__


def bare(text: str) -> str:
    """A text whose URIs have lost who asks, and how: users, passwords, signatures."""
    return _URI.sub(r"\1\2", text)


def lacks_place(error: BaseException) -> bool:
    """Whether what is not there is the bucket itself."""
    return any(code in str(error) for code in _NO_SUCH_PLACE)


def _short(answer: re.Match[str]) -> str:
    found = [part.search(answer[0]) for part in _PARTS]
    return html.unescape(": ".join(part[1] for part in found if part is not None))


def _without(variables: Mapping[str, str], text: str) -> str:
    for name, value in variables.items():
        if len(value) >= _SHORT and _SECRET.match(name) and not name.endswith(_NAMES):
            text = text.replace(value, "...")
    return text
