"""Errors of a node.

NodeError
    StartRefused: it cannot run on this machine with these settings
    NotRunning:   it was used before its start or after its end
    ShardEnded:   one of its threads ended while it ran
    DirectoryInUse:  another process uses its directory
"""

from __future__ import annotations

from pathlib import Path


class NodeError(Exception):
    """A node failed."""

    retryable = False


class StartRefused(NodeError):
    """The node cannot run on this machine with these settings. The message names the one to change."""


class NotRunning(NodeError):
    """The node is not running."""


class ShardEnded(NodeError):
    """A shard thread ended while the node ran."""


class DirectoryInUse(NodeError):
    """Another process uses the directory."""

    def __init__(self, path: Path, holder: str) -> None:
        """Describe the conflict.

        Args:
            path: The directory.
            holder: Process id of the other process; empty if it is not known.
        """
        super().__init__(f"{path} is in use by another server (process {holder or 'unknown'})")
