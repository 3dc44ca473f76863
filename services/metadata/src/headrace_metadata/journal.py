"""The file ``state.messages``: the commands since some snapshot, in order, durable before they are applied."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace_metadata.errors import AppendFailedError, SyncFailedError
from headrace_metadata.files import replace_file, sync_folder, write_unfinished, write_whole
from headrace_metadata.journal_format import HEADER_BYTES, Header, Scan, encode_entry, encode_seal, scan
from headrace_proto.metadata.v1 import JournalEntry

_log = logging.getLogger(__name__)

JOURNAL_NAME = "state.messages"

Sync = Callable[[int], None]


class Journal:
    """An open journal. One thread at a time may use it; every method may block on the device."""

    def __init__(self, path: Path, header: Header, *, sync: Sync) -> None:
        """Use ``Journal.open``."""
        self._path = path
        self._header = header
        self._sync = sync
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._end_bytes = HEADER_BYTES
        self._positions_bytes: list[int] = []
        self._synced_through = header.base_op

    @classmethod
    def open(cls, path: Path, *, sync: Sync = os.fdatasync) -> tuple[Journal, list[JournalEntry]]:
        """Open a journal, cut what was never acknowledged, and make the rest durable.

        Args:
            path: An existing journal.
            sync: Makes the contents of a descriptor durable.

        Returns:
            The journal, and its entries in order.

        Raises:
            StateDamagedError: Something that was acknowledged is damaged. The file was not changed.
            UnsupportedFormatError: The file is of a newer version.
            SyncFailedError: It cannot be made durable.
        """
        contents = path.read_bytes()
        found = scan(contents, path)
        if found.damage is not None:
            raise found.damage
        journal = cls(path, found.header, sync=sync)
        journal._adopt(found, length_bytes=len(contents))
        return journal, found.entries

    @property
    def base_op(self) -> int:
        """The op before the first entry."""
        return self._header.base_op

    @property
    def last_op(self) -> int:
        """The op of the last entry, or ``base_op`` if there is none."""
        return self.base_op + len(self._positions_bytes)

    @property
    def size_bytes(self) -> int:
        """How long the file is."""
        return self._end_bytes

    def append(self, entries: Sequence[JournalEntry], *, durable: bool = True) -> None:
        """Append entries; they are on the device when this returns.

        Args:
            entries: Ops that follow ``last_op`` without a gap. They share one write and one sync.
            durable: Otherwise they are handed to the operating system only: they survive the death of the
                process, and a loss of power up to the last sync.

        Raises:
            AppendFailedError: They could not be written. The journal is as before and can still be used.
            SyncFailedError: The state of the device is unknown. The journal must not be used any more.
        """
        frames = [encode_entry(entry, synced_through=self._synced_through, salt=self._header.salt) for entry in entries]
        try:
            write_whole(self._descriptor, b"".join(frames), position_bytes=self._end_bytes)
        except OSError as error:
            self._take_back()
            raise AppendFailedError(f"{self._path} cannot be written: {error.strerror}") from error
        for frame in frames:
            self._positions_bytes.append(self._end_bytes)
            self._end_bytes += len(frame)
        if durable:
            self.sync()

    def sync(self) -> None:
        """Make everything appended durable, and note in the journal that it is.

        Raises:
            SyncFailedError: The state of the device is unknown. The journal must not be used any more.
        """
        if self._synced_through == self.last_op:
            return
        self._sync_or_stop()
        self._synced_through = self.last_op
        seal = encode_seal(synced_through=self._synced_through, salt=self._header.salt)
        try:
            write_whole(self._descriptor, seal, position_bytes=self._end_bytes)
        except OSError:
            # The entries are durable all the same; the next frame will tell.
            self._take_back()
        else:
            self._end_bytes += len(seal)

    def trim(self, through_op: int) -> None:
        """Drop all entries up to and including ``through_op``, durably.

        Raises:
            OSError: It could not be done. The journal is as before and can still be used.
            SyncFailedError: The state of the device is unknown. The journal must not be used any more.
        """
        dropped = through_op - self.base_op
        if dropped <= 0:
            return
        start_bytes = self._end_bytes if through_op == self.last_op else self._positions_bytes[dropped]
        kept = os.pread(self._descriptor, self._end_bytes - start_bytes, start_bytes)
        # The same salt: the frames are copied as they are.
        header = Header(self._header.salt, through_op)
        unfinished = write_unfinished(self._path, (header.encode(), kept))
        descriptor = os.open(unfinished, os.O_RDWR | os.O_CLOEXEC)
        try:
            unfinished.rename(self._path)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        moved_bytes = start_bytes - HEADER_BYTES
        self._descriptor = descriptor
        self._header = header
        self._positions_bytes = [position - moved_bytes for position in self._positions_bytes[dropped:]]
        self._end_bytes -= moved_bytes
        self._synced_through = self.last_op
        try:
            sync_folder(self._path.parent)
        except OSError as error:
            raise SyncFailedError(f"{self._path.parent} cannot be synced: {error.strerror}") from error

    def close(self) -> None:
        """Close the file without syncing it."""
        os.close(self._descriptor)

    def _adopt(self, found: Scan, *, length_bytes: int) -> None:
        self._positions_bytes = found.positions_bytes
        self._end_bytes = found.end_bytes
        self._synced_through = found.synced_through
        if found.end_bytes < length_bytes:
            _log.warning(
                "%s ends in %d bytes of a write that was cut off and never acknowledged: they are dropped, "
                "the last op is %d",
                self._path,
                length_bytes - found.end_bytes,
                self.last_op,
            )
            os.ftruncate(self._descriptor, found.end_bytes)
            self._sync_or_stop()
        # A killed process may have left entries that reached the operating system only. They count from now
        # on.
        self.sync()

    def _take_back(self) -> None:
        """Remove what a failed write has left behind the end.

        Whole frames among it would otherwise come back at the next start, although they were refused.
        """
        try:
            os.ftruncate(self._descriptor, self._end_bytes)
        except OSError as error:
            raise SyncFailedError(f"{self._path} cannot be cut: {error.strerror}") from error

    def _sync_or_stop(self) -> None:
        try:
            self._sync(self._descriptor)
        except OSError as error:
            # Never tried again: the kernel may have marked the pages as clean, and a second try would succeed
            # without having written anything.
            raise SyncFailedError(f"{self._path} cannot be synced: {error.strerror}") from error


def create_journal(path: Path, *, base_op: int) -> None:
    """Create an empty journal, durably, in the place of whatever has that name.

    Args:
        path: Its name.
        base_op: The op before its first entry.
    """
    replace_file(path, (Header(secrets.randbits(64), base_op).encode(),))
