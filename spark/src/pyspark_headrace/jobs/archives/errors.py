"""What goes wrong with archives, by type."""

from __future__ import annotations

from pyspark_headrace.errors import HeadraceError


class ArchiveError(HeadraceError):
    """Anything about an archive."""


class StoreError(ArchiveError):
    """The place where the archive is refuses something, or cannot be reached."""


class ManifestError(ArchiveError):
    """An entry of the log is missing, damaged, or does not fit those before it. The text names its file."""

    def __init__(self, path: str, what: str) -> None:
        """Describe it.

        Args:
            path: Of the entry, below the archive.
            what: Is wrong with it.
        """
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what

    def __reduce__(self) -> tuple[type[ManifestError], tuple[str, str]]:
        return type(self), (self.path, self.what)


class FileError(ArchiveError):
    """A file of the archive is not what the log says."""

    def __init__(self, path: str, what: str) -> None:
        """Describe it.

        Args:
            path: Of the file, below the archive.
            what: Is wrong with it.
        """
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what

    def __reduce__(self) -> tuple[type[FileError], tuple[str, str]]:
        return type(self), (self.path, self.what)


class MissingFileError(FileError):
    """A file that the log names is not there."""


class DamagedFileError(FileError):
    """A file that the log names cannot be read, or has something else in it."""


class OverlapError(ArchiveError):
    """Messages that are to be added are in the archive already: another query writes to the same place."""


class ReplacedError(ArchiveError):
    """Files that are to be replaced or removed are not all there any more: somebody else was quicker. Plan anew."""
