"""Errors that prevent the start of an embedded server, or stop it.

EmbeddedError
    DataDirectoryInUse:   another server uses the data directory
    ForeignDataDirectory: the directory has other contents, or is of a newer release
    RootCredentialsError: the credentials for a new root user cannot be used
    ShardEnded:           a shard thread ended while the server ran
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """The embedded server cannot start or continue. The message contains the reason."""


class DataDirectoryInUse(EmbeddedError):
    """Another server uses the data directory."""


class ForeignDataDirectory(EmbeddedError):
    """The data directory has other contents, or was written by a newer release."""


class RootCredentialsError(EmbeddedError):
    """The credentials for a new root user cannot be used."""


class ShardEnded(EmbeddedError):
    """A shard thread ended while the server ran."""
