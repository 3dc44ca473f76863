"""Validation of stream and topic names."""

from __future__ import annotations

from headrace_metadata.state_machine.context import Refused
from headrace_proto.errors import Status
from headrace_proto.limits import NAME_BYTES


def check_name(name: str) -> None:
    """Check the length of a name. There is no other rule: names are compared byte for byte.

    Raises:
        Refused: 4, the name is empty or longer than 255 bytes of UTF-8.
    """
    if len(name.encode()) not in NAME_BYTES:
        raise Refused(Status.INVALID_FORMAT)
