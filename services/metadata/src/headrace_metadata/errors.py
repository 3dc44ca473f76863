"""What can go wrong outside the rules of the state machine.

    MetadataError
    ├── StorageError                the files of the state
    │   ├── FolderInUseError        another process works on them
    │   ├── UnsupportedFormatError  written by another release
    │   ├── StateDamagedError       what was once durable is not there any more, or not as it was written
    │   ├── AppendFailedError       the commands were not taken; the same ones may succeed later
    │   └── SyncFailedError         nobody knows what is on the device: the replica stops
    └── ReplicaStoppedError         the replica takes no commands (any more)

``code`` is the status that a client is answered with; ``retryable`` says whether the unchanged command may
succeed when it is proposed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from headrace_proto.errors import Status


class MetadataError(Exception):
    """Base of all errors of this package."""

    code: ClassVar[Status] = Status.ERROR
    retryable: ClassVar[bool] = False


class StorageError(MetadataError):
    """The files of the state cannot be read or written."""


class FolderInUseError(StorageError):
    """Another process works on the files."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder} is in use by another process; stop that one, or give this one another folder")


class UnsupportedFormatError(StorageError):
    """A file was written by a release that this one does not understand."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}; start the release that wrote it, or a newer one")


class StateDamagedError(StorageError):
    """Durable state is missing or altered. Nothing was changed on the disk.

    Attributes:
        path: The file.
        position_bytes: Where the damage begins.
        reason: What was found there.
    """

    code = Status.STATE_FILE_CORRUPTED

    def __init__(self, path: Path, position_bytes: int, reason: str, advice: str) -> None:
        super().__init__(f"{path} is damaged at byte {position_bytes}: {reason}. Nothing was changed. {advice}")
        self.path = path
        self.position_bytes = position_bytes
        self.reason = reason


class AppendFailedError(StorageError):
    """The journal could not be written, for example because the device is full. It is as it was before."""

    code = Status.CANNOT_APPEND_TO_FILE
    retryable = True


class SyncFailedError(StorageError):
    """The journal could not be synced. What the device holds is unknown until the next start reads it."""

    code = Status.CANNOT_SYNC_FILE


class ReplicaStoppedError(MetadataError):
    """The replica was closed, or it stopped at a failure, which is then the cause."""

    code = Status.DISCONNECTED
