"""The part of the limit of open files that is for listeners of Python.

The shards divide the rest among the files of partitions and their own connections (`core/crates/runtime`): connections
that take more than their part would keep the log from opening its files.
"""

from __future__ import annotations

import logging
import resource
from typing import Final

_log = logging.getLogger(__name__)

# Both as in core/crates/runtime/src/open_files.rs.
_RESERVED: Final = 256
_PART: Final = 4
# Descriptors of a connection: its own, and both ends of its session with the node during a request.
_EACH: Final = 3
_CONNECTIONS_MIN: Final = 16


def connections_max(wanted: int, limit: str) -> int:
    """Return the number of connections that a listener may accept.

    Args:
        wanted: Number that the settings allow.
        limit: Name of that setting, for the log.
    """
    # A node raises the soft limit up to this one.
    _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = possible_within(files_max)
    if possible is None or possible >= wanted:
        return wanted
    _log.warning("%s = %d: the limit of open files (ulimit -Hn) permits %d", limit, wanted, possible)
    return possible


def possible_within(files_max: int) -> int | None:
    """Return the number of connections within a limit of open files; None if that is unlimited."""
    if files_max == resource.RLIM_INFINITY:
        return None
    return max(_CONNECTIONS_MIN, (files_max - _RESERVED) // _PART // _EACH)
