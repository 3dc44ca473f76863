"""Why a partition node does not start, or does not go on.

PartitionNodeError
    ListenError:    an address cannot be bound, or a certificate cannot be used
    ForeignFolder:  the data folder is not one that this node may touch
    AnotherCluster: the metadata service is not the one that this folder has followed
    DataLost:       the folder is not the one that the cluster expects on this node
    NodeReplaced:   a later run of this node has registered
    NodeRemoved:    somebody has removed this node from the cluster
    RegistrationRefused: the metadata service does not take this node
"""

from __future__ import annotations


class PartitionNodeError(Exception):
    """The partition node does not start, or cannot go on. The message says why."""


class ListenError(PartitionNodeError):
    """An address cannot be bound, or a file for the encryption cannot be used."""


class ForeignFolder(PartitionNodeError):
    """The data folder is not one that this node may touch."""


class AnotherCluster(PartitionNodeError):
    """The metadata service is not the one that this folder has followed, or it has lost what it knew."""


class DataLost(PartitionNodeError):
    """The folder is not the one that the cluster expects on this node."""


class NodeReplaced(PartitionNodeError):
    """A later run of this node has registered; this one must not answer any more."""


class NodeRemoved(PartitionNodeError):
    """Somebody has removed this node from the cluster."""


class RegistrationRefused(PartitionNodeError):
    """The metadata service does not take this node."""
