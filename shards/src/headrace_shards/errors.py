"""What can go wrong with a node.

NodeError
    StartRefused: it cannot run here with these settings
    NotRunning:   it was asked for something before its start or after its end
    ShardEnded:   one of its threads ended while it ran
    FolderInUse:  another process uses its folder
"""

from __future__ import annotations

from pathlib import Path


class NodeError(Exception):
    """A node failed."""

    retryable = False


class StartRefused(NodeError):
    """The node cannot run here with these settings. Change what the message names."""


class NotRunning(NodeError):
    """The node is not running."""


class ShardEnded(NodeError):
    """A shard thread ended while the node ran."""


class FolderInUse(NodeError):
    """Another process uses the folder."""

    def __init__(self, path: Path, holder: str) -> None:
        """Describe it.

        Args:
            path: The folder.
            holder: The number of the process; empty if it is not known.
        """
        super().__init__(f"{path} is in use by another server (process {holder or 'unknown'})")
