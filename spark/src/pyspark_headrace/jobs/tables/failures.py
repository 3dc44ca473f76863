"""Descriptions of storage errors, reduced to what users need and may see.

Errors of the libraries contain the complete response of a store: among other things the string to sign, with the
session token. They also contain URIs, which may be signed. Only the kind of failure, the location, and the code and
message of the response are passed on. For that reason errors made here are raised `from None`.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from typing import Final

from obstore.exceptions import BaseError

FAILURES: Final = (BaseError, OSError, ValueError)
"""Exceptions raised by obstore."""

_LENGTH_MAX: Final = 600
_DEBUG: Final = "\n\nDebug source:"
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")
_ANSWER: Final = re.compile(r"<(?:\?xml|Error|!doctype|html)\b.*", re.DOTALL | re.IGNORECASE)
_PARTS: Final = tuple(re.compile(f"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("Code", "Message"))
_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^\s/@]*@)?([^\s?]*)(?:\?\S*)?", re.IGNORECASE)
_SECRET: Final = re.compile(r"(?:AWS|AZURE|GOOGLE)_.*(?:KEY|SECRET|TOKEN|SAS|PASSWORD)")
_NAMES: Final = ("_FILE", "_URI", "_URL", "_KEY_ID")
"""Endings of variables that name the location or the owner of a secret, not the secret itself."""
_SHORT: Final = 6
_NO_SUCH_PLACE: Final = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")
_OF_MACHINES: Final = ("169.254.169.254", "169.254.170.", "metadata.google.internal", "metadata/identity")
"""Credential endpoints that a library asks if the environment has no credentials."""


def said(error: BaseException) -> str:
    """Describe an error without secrets."""
    text = _COLOURS.sub("", str(error).split(_DEBUG, maxsplit=1)[0]).strip()
    text = bare(_ANSWER.sub(_short, text))
    text = _without(os.environ, " ".join(text.split()))[:_LENGTH_MAX]
    if any(part in text for part in _OF_MACHINES):
        return f"there are no credentials, neither in the environment nor from this machine ({text})"
    return text or type(error).__name__


def bare(text: str) -> str:
    """Strip users, passwords and signatures from the URIs in a text."""
    return _URI.sub(r"\1\2", text)


def lacks_place(error: BaseException) -> bool:
    """Return whether the bucket itself does not exist."""
    return any(code in str(error) for code in _NO_SUCH_PLACE)


def _short(answer: re.Match[str]) -> str:
    found = [part.search(answer[0]) for part in _PARTS]
    return html.unescape(": ".join(part[1] for part in found if part is not None))


def _without(variables: Mapping[str, str], text: str) -> str:
    for name, value in variables.items():
        if len(value) >= _SHORT and _SECRET.match(name) and not name.endswith(_NAMES):
            text = text.replace(value, "...")
    return text
