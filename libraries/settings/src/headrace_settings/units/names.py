"""Names in a cluster, and addresses of its members."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]+):[0-9]{1,5}")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not 1 to 63 letters, digits, dots, dashes and underscores")
    return text


def _host_port(text: str) -> str:
    if not _HOST_PORT.fullmatch(text):
        raise ValueError(f"{text!r} is not host:port")
    return text


Name = Annotated[str, AfterValidator(_name)]
"""Name of a cluster, a node or a gateway: 1 to 63 letters, digits, dots, dashes and underscores."""

HostPort = Annotated[str, AfterValidator(_host_port)]
"""Host, by name or address, and port."""
