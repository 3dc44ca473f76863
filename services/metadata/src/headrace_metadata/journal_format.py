"""The format of the journal ``state.messages``, and what can be concluded from the bytes of one.

All integers are little-endian; checksums are XXH3-64.

    file  = header, frame*
    header (40 bytes)                             frame (24 bytes and its body)
      0  8  magic "HEADRMSG"                        0  4  magic "HRJE"
      8  4  format version, 1                       4  4  length of the body
     12  4  length of the header, 40                8  8  synced_through
     16  8  salt: seed of the frames' checksums    16  8  checksum of bytes 0..16 and the body, seed: salt
     24  8  base op: the op before the first entry 24     body: an encoded JournalEntry; empty in a seal
     32  8  checksum of bytes 0..32, seed 0

``synced_through`` is the highest op that was known to be on the device when the frame was written. A seal is
a frame that only says that; one follows every group of entries, right after the sync of that group. This is
what tells a torn write from damage, although the entries of a group reach the device in any order:

    The power fails while ops 7, 8 and 9 are written as one group; 8 reaches the device, 7 does not. The
    frames say synced_through = 6: op 7 was never acknowledged, so the journal is cut at op 7, whatever stands
    behind it.

    Years later a bit of op 7 flips. The seal behind the group and all later frames say synced_through >= 9:
    op 7 was acknowledged, so nothing may be cut and the journal is refused.

The salt is random: nobody who chooses, say, the name of a stream can make it look like a frame.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError
from xxhash import xxh3_64_intdigest

from headrace_metadata.errors import StateDamagedError, UnsupportedFormatError
from headrace_proto.metadata.v1 import JournalEntry

HEADER_BYTES: Final = 40
FRAME_HEAD_BYTES: Final = 24
# Far above the largest command that a front accepts; bounds what a damaged length can make anyone read.
BODY_BYTES_MAX: Final = 64 * 1024 * 1024

_FORMAT_VERSION: Final = 1
_HEADER_MAGIC: Final = b"HEADRMSG"
_HEADER: Final = struct.Struct("<8sIIQQ")
_FRAME_MAGIC: Final = b"HRJE"
_FRAME_HEAD: Final = struct.Struct("<4sIQ")
_CHECKSUM: Final = struct.Struct("<Q")

REPAIR_ADVICE: Final = (
    "Restore the file from a backup, or see what giving up the damaged part would cost with "
    "`python -m headrace_metadata repair FOLDER`."
)


@dataclass(frozen=True, slots=True)
class Header:
    """What a journal says about itself."""

    salt: int
    base_op: int

    def encode(self) -> bytes:
        """Return the first bytes of a journal."""
        fields = _HEADER.pack(_HEADER_MAGIC, _FORMAT_VERSION, HEADER_BYTES, self.salt, self.base_op)
        return fields + _CHECKSUM.pack(xxh3_64_intdigest(fields))


@dataclass(frozen=True, slots=True)
class Scan:
    """The good part of a journal.

    Attributes:
        header: The file's header.
        entries: Consecutive ops from ``header.base_op + 1``.
        positions_bytes: Where the frame of each entry begins.
        end_bytes: Where the good part ends.
        synced_through: The highest op that some frame, before or behind the end, knows to be durable.
        damage: Why the good part ends there, if something was lost that had been acknowledged. Without damage, what
            follows the end was never acknowledged.
    """

    header: Header
    entries: list[JournalEntry]
    positions_bytes: list[int]
    end_bytes: int
    synced_through: int
    damage: StateDamagedError | None


def encode_entry(entry: JournalEntry, *, synced_through: int, salt: int) -> bytes:
    """Return the frame of an entry."""
    return _encode_frame(entry.SerializeToString(), synced_through, salt)


def encode_seal(*, synced_through: int, salt: int) -> bytes:
    """Return the frame that says what is durable."""
    return _encode_frame(b"", synced_through, salt)


def scan(contents: bytes, path: Path) -> Scan:
    """Read a journal up to its end, to a write that was cut off, or to damage.

    Args:
        contents: The whole file.
        path: Its name, for errors.

    Raises:
        StateDamagedError: The header is damaged: nothing can be told about the rest.
        UnsupportedFormatError: The file is of a newer version.
    """
    header = _decode_header(contents, path)
    entries: list[JournalEntry] = []
    positions_bytes: list[int] = []
    position = HEADER_BYTES
    synced_through = header.base_op
    damage = None
    while position < len(contents):
        next_op = header.base_op + 1 + len(entries)
        frame = _decode_frame(contents, position, header.salt)
        if frame is None:
            synced_through = max(synced_through, _synced_beyond(contents, position + 1, header.salt))
            if synced_through >= next_op:
                reason = f"op {next_op} cannot be read, but all ops up to {synced_through} were durable"
                damage = StateDamagedError(path, position, reason, REPAIR_ADVICE)
            break
        if frame.body:
            entry = _decode_entry(frame.body, path, position)
            if entry.op != next_op:
                reason = f"op {entry.op} stands where op {next_op} belongs"
                damage = StateDamagedError(path, position, reason, REPAIR_ADVICE)
                break
            entries.append(entry)
            positions_bytes.append(position)
        synced_through = max(synced_through, frame.synced_through)
        position = frame.end_bytes
    return Scan(header, entries, positions_bytes, position, synced_through, damage)


@dataclass(frozen=True, slots=True)
class _Frame:
    body: bytes
    synced_through: int
    end_bytes: int


def _encode_frame(body: bytes, synced_through: int, salt: int) -> bytes:
    head = _FRAME_HEAD.pack(_FRAME_MAGIC, len(body), synced_through)
    return b"".join((head, _CHECKSUM.pack(xxh3_64_intdigest(head + body, salt)), body))


def _decode_header(contents: bytes, path: Path) -> Header:
    if len(contents) < HEADER_BYTES or not contents.startswith(_HEADER_MAGIC):
        raise StateDamagedError(path, 0, "the file does not begin like a journal", REPAIR_ADVICE)
    fields = contents[: _HEADER.size]
    if _CHECKSUM.unpack_from(contents, _HEADER.size) != (xxh3_64_intdigest(fields),):
        raise StateDamagedError(path, 0, "the header does not match its checksum", REPAIR_ADVICE)
    _, version, header_bytes, salt, base_op = _HEADER.unpack(fields)
    if (version, header_bytes) != (_FORMAT_VERSION, HEADER_BYTES):
        raise UnsupportedFormatError(path, f"has format version {version}")
    return Header(salt, base_op)


def _decode_frame(contents: bytes, position_bytes: int, salt: int) -> _Frame | None:
    """Return the frame at a position, or nothing if there is no whole and unaltered one."""
    body_start = position_bytes + FRAME_HEAD_BYTES
    if body_start > len(contents):
        return None
    magic, body_length, synced_through = _FRAME_HEAD.unpack_from(contents, position_bytes)
    body_end = body_start + body_length
    if magic != _FRAME_MAGIC or body_length > BODY_BYTES_MAX or body_end > len(contents):
        return None
    body = contents[body_start:body_end]
    head = contents[position_bytes : position_bytes + _FRAME_HEAD.size]
    if _CHECKSUM.unpack_from(contents, position_bytes + _FRAME_HEAD.size) != (xxh3_64_intdigest(head + body, salt),):
        return None
    return _Frame(body, synced_through, body_end)


def _decode_entry(body: bytes, path: Path, position_bytes: int) -> JournalEntry:
    try:
        return JournalEntry.FromString(body)
    except DecodeError as error:
        # The checksum matched: this is what was written, so no other copy of the file would be any better.
        raise UnsupportedFormatError(path, f"holds an unknown entry at byte {position_bytes}") from error


def _synced_beyond(contents: bytes, position_bytes: int, salt: int) -> int:
    """Return the highest op that any whole frame from a position on knows to be durable, else 0."""
    highest = 0
    while (position_bytes := contents.find(_FRAME_MAGIC, position_bytes)) >= 0:
        frame = _decode_frame(contents, position_bytes, salt)
        if frame is None:
            position_bytes += 1
        else:
            highest = max(highest, frame.synced_through)
            position_bytes = frame.end_bytes
    return highest
