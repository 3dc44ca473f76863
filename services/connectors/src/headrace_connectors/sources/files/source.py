"""The source `files`: lines and rows of files, each file from where it was read to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec

from headrace_connectors.contract import (
    Batch,
    ConnectorError,
    InFlight,
    Lag,
    Polling,
    Record,
    Settings,
    Source,
    Unavailable,
    decode_state,
    encode_state,
)
from headrace_connectors.sources.files.followed import Entry, OpenFile, probes
from headrace_connectors.sources.files.readers import CsvReader, JsonLineReader, LineReader, Reader
from headrace_connectors.sources.files.settings import FilesSettings
from headrace_connectors.sources.files.tracking import Tracking, delete_file

_STATE_VERSION: Final = 1
_log = logging.getLogger(__name__)


class _State(msgspec.Struct):
    nonce: str
    """Random text of this source, so that ids of another one are different."""
    next_number: int
    """Number of the next new file; none is given twice."""
    files: list[Entry]


class FilesSource(Source):
    """Reads files that match patterns, and follows those that grow, also when they are renamed or truncated.

    A new file is written to the state with a number of its own before anything of it is sent: a record has the same id
    whenever it is read again.
    """

    settings_type: ClassVar[type[Settings]] = FilesSettings
    uses_host: ClassVar[bool] = True

    def __init__(self, settings: FilesSettings) -> None:
        """Open no file yet."""
        self._settings = settings
        self._reader = _reader(settings)
        self._open_files: dict[tuple[int, int], OpenFile] = {}
        self._tracking = Tracking(settings, self._reader, self._open_files)
        self._committed = _State(secrets.token_hex(8), 1, [])
        self._flight = InFlight[_State]()
        # Set while no new file waits for the commit of its number.
        self._numbered = asyncio.Event()
        self._numbered.set()
        self._has_state = False
        self._is_trial = False
        self._last_served = 0
        # Held from reading until the state behind it is known: a commit closes files that no state has.
        self._reading = asyncio.Lock()
        # Reading goes on in its thread when a poll is cancelled.
        self._lock = threading.Lock()
        self._measuring: asyncio.Task[Lag | None] | None = None

    @classmethod
    def record_fields(cls, settings: Any) -> Sequence[str] | None:
        """Return the columns of CSV that the settings name."""
        return settings.csv.columns or None

    def mode(self) -> Polling:
        """Deletions make it destructive."""
        return Polling(destructive=self._settings.delete_after_read)

    async def open(self, state: bytes | None) -> None:
        """Continue after the state."""
        if state is not None:
            self._committed = decode_state(state, _STATE_VERSION, _State)
            self._has_state = True

    async def open_read_only(self, state: bytes | None) -> None:
        """Continue after the state, and delete nothing."""
        await self.open(state)
        self._is_trial = True

    async def poll(self) -> Batch | None:
        """Return lines and rows after the last commit, or a new state without any for files that were found."""
        await self.rewind()
        return await self.poll_ahead()

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        """Return why files that are deleted are read a batch at a time."""
        if settings.delete_after_read:
            return "files that are deleted are read a batch at a time: unset settings.delete_after_read"
        return None

    async def poll_ahead(self) -> Batch | None:
        """Return the next lines and rows, or a new state without any for files that were found."""
        interval = self._settings.poll_interval.seconds
        if not self._numbered.is_set():
            # Ids of records have the number of their file: after a crash it has to be the same.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._numbered.wait(), interval)
            return None
        async with self._reading:
            base = self._committed if self._flight.last is None else self._flight.last
            found = await asyncio.to_thread(self._round, base, self._has_state or len(self._flight) > 0)
            if found is not None:
                records, state, is_new = found
                batch = Batch(records, encode_state(_STATE_VERSION, state))
                self._flight.add(batch, state)
                if is_new:
                    self._numbered.clear()
                return batch
        await asyncio.sleep(interval)
        return None

    async def commit(self) -> None:
        """Go on after these records; delete files that are complete."""
        await self._commit(self._flight.clear())

    async def commit_batch(self, batch: Batch) -> None:
        """Go on after the records of a batch."""
        await self._commit(self._flight.committed(batch))

    async def rewind(self) -> None:
        """Read again after the last commit."""
        self._flight.clear()
        self._numbered.set()

    async def _commit(self, states: list[_State]) -> None:
        async with self._reading:
            if states:
                self._committed, self._has_state = states[-1], True
            if not len(self._flight):
                self._numbered.set()
            await asyncio.to_thread(self._settle, (self._committed, *self._flight.positions))

    async def lag(self) -> Lag | None:
        """Return the bytes of files that are not stored yet; a file of Parquet counts until its reading has begun."""
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(asyncio.to_thread(self._behind))
        # A thread that waits for a reading which hangs is not ended by the caller's timeout: there is one at most.
        return await asyncio.shield(self._measuring)

    def _behind(self) -> Lag | None:
        with self._lock:
            if self._settings.start == "end" and not self._has_state:
                # The first poll decides where it begins.
                return None
            sizes = self._tracking.sizes()
            for entry in self._committed.files:
                key = (entry.device, entry.inode)
                file = self._open_files.get(key)
                if file is not None:
                    # A file that was renamed is read to its end.
                    sizes[key] = file.status.st_size
                if key in sizes:
                    sizes[key] -= min(entry.offset, sizes[key])
        return Lag(sum(sizes.values()), "bytes")

    async def close(self) -> None:
        """Close all files."""
        await asyncio.to_thread(self._close)

    def _round(self, base: _State, has_state: bool) -> tuple[list[Record], _State, bool] | None:
        """Return records after a state, the state behind them, and whether it has new files."""
        with self._lock:
            if not self._is_trial:
                self._delete()
            state = _State(base.nonce, base.next_number, [msgspec.structs.replace(entry) for entry in base.files])
            at_end = self._settings.start == "end" and not has_state
            known = {entry.number for entry in state.files}
            is_changed = self._tracking.look(state.files, at_end=at_end)
            for entry in state.files:
                if entry.number == 0:
                    entry.number, state.next_number = state.next_number, state.next_number + 1
            is_new = not has_state or any(entry.number not in known for entry in state.files)
            if len(state.files) > self._settings.max_files:
                raise ConnectorError(
                    f"paths matches more than {self._settings.max_files} files: set max_files, narrower paths, or "
                    "delete_after_read"
                )
            if is_new and not self._is_trial:
                return [], state, True
            records, has_moved = self._read(state)
            return (records, state, False) if records or has_moved or is_changed else None

    def _read(self, state: _State) -> tuple[list[Record], bool]:
        records: list[Record] = []
        has_moved, now, limit = False, time.monotonic(), self._settings.batch_size
        # Each file has its turn: those after the last one that was read come first.
        turns = sorted(state.files, key=lambda entry: (entry.number <= self._last_served, entry.number))
        for entry in turns:
            file = self._open_files.get((entry.device, entry.inode))
            if file is None or entry.is_done:
                continue
            if len(records) >= limit:
                break
            is_complete = file.quiet_seconds(now) >= self._settings.complete_after.seconds
            before = entry.offset, entry.line
            room = limit - len(records)
            records += self._reader.read(file, entry, state.nonce, room, is_complete=is_complete)
            if (entry.offset, entry.line) != before:
                entry.head, entry.tail = probes(file, entry.offset)
                self._last_served, has_moved = entry.number, True
            if is_complete and self._reader.is_finished(file, entry):
                has_moved = self._finished(entry, state) or has_moved
        return records, has_moved

    def _finished(self, entry: Entry, state: _State) -> bool:
        if self._settings.delete_after_read:
            if entry.offset == 0:
                # Its writer may have opened it and not written yet.
                return False
            entry.is_done = True
        elif self._tracking.is_gone(entry):
            state.files.remove(entry)
        else:
            return False
        return True

    def _settle(self, states: tuple[_State, ...]) -> None:
        with self._lock:
            self._delete()
            kept = {(entry.device, entry.inode) for state in states for entry in state.files}
            for key in [key for key in self._open_files if key not in kept]:
                self._open_files.pop(key).close()

    def _delete(self) -> None:
        """Delete files that are stored as a whole; one that has changed since is read on, or as another.

        Raises:
            Unavailable: A file cannot be deleted.
        """
        for entry in [entry for entry in self._committed.files if entry.is_done]:
            try:
                is_gone = delete_file(entry)
            except OSError as error:
                raise Unavailable(
                    f"{entry.path} cannot be deleted: {error.strerror}; permit it, or unset delete_after_read"
                ) from error
            if is_gone:
                self._committed.files.remove(entry)
                self._reader.forget(entry.number)
            else:
                _log.warning(
                    "%s has changed after it was complete, and is not deleted: another file is in its place, or "
                    "complete_after is too short",
                    entry.path,
                )
                entry.is_done = False

    def _close(self) -> None:
        with self._lock:
            for file in self._open_files.values():
                file.close()
            self._open_files.clear()


def _reader(settings: FilesSettings) -> Reader:
    match settings.format:
        case "lines":
            return LineReader(settings)
        case "json_lines":
            return JsonLineReader(settings)
        case "csv":
            return CsvReader(settings)
        case "parquet":
            # The other formats need no pyarrow.
            from headrace_connectors.sources.files.parquet import ParquetReader  # noqa: PLC0415

            return ParquetReader()
