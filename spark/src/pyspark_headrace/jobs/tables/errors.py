"""Exceptions of archives."""

from __future__ import annotations

from pyspark_headrace.errors import HeadraceError


class ArchiveError(HeadraceError):
    """Base class of errors of archives."""


class StoreError(ArchiveError):
    """The storage of the archive refuses an operation, or is unreachable."""


class FileError(ArchiveError):
    """A file of the archive is not as its table describes it."""

    def __init__(self, path: str, what: str) -> None:
        """Describe the error.

        Args:
            path: Path of the file, relative to the archive.
            what: Description of the defect.
        """
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what

    def __reduce__(self) -> tuple[type[FileError], tuple[str, str]]:
        return type(self), (self.path, self.what)


class MissingFileError(FileError):
    """A file of the table does not exist."""


class DamagedFileError(FileError):
    """A file of the table cannot be read, or has other contents."""


class OverlapError(ArchiveError):
    """Messages to be added are in the archive already: another query writes to the same location."""
