"""Errors that prevent the start of a partition node, or stop it.

PartitionNodeError
    ForeignDirectory:  the data directory does not belong to this node
    AnotherCluster: the metadata service is not the one that this directory has followed
    DataLost:       the directory is not the one that the cluster expects on this node
    NodeReplaced:   a later run of this node has registered
    NodeRemoved:    this node was removed from the cluster
    RegistrationRefused: the metadata service refuses this node
"""

from __future__ import annotations


class PartitionNodeError(Exception):
    """The partition node cannot start or continue. The message contains the reason."""


class ForeignDirectory(PartitionNodeError):
    """The data directory does not belong to this node."""


class AnotherCluster(PartitionNodeError):
    """The metadata service is not the one that this directory has followed, or it has lost data."""


class DataLost(PartitionNodeError):
    """The data directory is not the one that the cluster expects on this node."""


class NodeReplaced(PartitionNodeError):
    """A later run of this node has registered; this one is fenced."""


class NodeRemoved(PartitionNodeError):
    """This node was removed from the cluster."""


class RegistrationRefused(PartitionNodeError):
    """The metadata service refuses this node."""
