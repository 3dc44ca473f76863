"""What can go wrong with a node.

NodeError
    StartRefused: it cannot run here with these settings
    NotRunning:   it was asked for something before its start or after its end
"""

from __future__ import annotations


class NodeError(Exception):
    """A partition node failed."""

    retryable = False


class StartRefused(NodeError):
    """The node cannot run here with these settings. Change what the message names."""


class NotRunning(NodeError):
    """The node is not running."""
