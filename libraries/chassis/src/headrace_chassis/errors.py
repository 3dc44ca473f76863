"""Errors of a start, which end a process with their message alone.

StartRefused
    ListenError:      an address cannot be bound
    CertificateError: a certificate, its key or an authority cannot be used
    DirectoryInUse:   another process uses the data directory
"""

from __future__ import annotations

from pathlib import Path


class StartRefused(Exception):
    """The service cannot run here with these settings. The message names the setting to change."""


class ListenError(StartRefused):
    """An address cannot be bound."""


class CertificateError(StartRefused):
    """A certificate file is missing or invalid."""


class DirectoryInUse(StartRefused):
    """Another process uses the directory."""

    def __init__(self, path: Path, holder: str) -> None:
        """Describe the conflict.

        Args:
            path: The directory.
            holder: Process id of the other process; empty if it is not known.
        """
        super().__init__(f"{path} is in use by another server (process {holder or 'unknown'})")
