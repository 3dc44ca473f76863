"""Why an embedded server does not start, or does not go on.

EmbeddedError
    DataFolderInUse:     another server works on the folder
    ForeignDataFolder:   what is there is not ours, or is of a newer release
    RootCredentialsError: the credentials for a new root user cannot be used
    ShardEnded:          a shard thread ended while the server ran
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """The embedded server does not start, or cannot go on. The message says why."""


class DataFolderInUse(EmbeddedError):
    """Another server works on the data folder."""


class ForeignDataFolder(EmbeddedError):
    """The data folder is not one that this release may touch."""


class RootCredentialsError(EmbeddedError):
    """The credentials for a new root user cannot be used."""


class ShardEnded(EmbeddedError):
    """A shard thread ended while the server ran."""
