"""Errors of a node.

NodeError
    NotRunning:   it was used before its start or after its end
    ShardEnded:   one of its threads ended while it ran
"""

from __future__ import annotations


class NodeError(Exception):
    """A node failed."""

    retryable = False


class NotRunning(NodeError):
    """The node is not running."""


class ShardEnded(NodeError):
    """A shard thread ended while the node ran."""
