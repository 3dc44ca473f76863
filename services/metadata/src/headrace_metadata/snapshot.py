"""The files ``state.snapshot`` and ``state.snapshot.previous``: the whole state at some op.

All integers are little-endian; checksums are XXH3-64 with seed 0.

    file  = header, body
    header (40 bytes)
      0  8  magic "HEADRSNP"
      8  4  format version, 1
     12  4  length of the header, 40
     16  8  length of the body
     24  8  checksum of the body
     32  8  checksum of bytes 0..32
    body: an encoded StateSnapshot

The snapshot before the current one is kept, and the journal since it: should the current one be damaged,
nothing is lost.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError
from xxhash import xxh3_64_intdigest

from headrace_metadata.errors import StateDamagedError, UnsupportedFormatError
from headrace_metadata.files import sync_folder, write_unfinished
from headrace_proto.metadata.v1 import StateSnapshot

SNAPSHOT_NAME: Final = "state.snapshot"
PREVIOUS_SNAPSHOT_NAME: Final = "state.snapshot.previous"

_FORMAT_VERSION: Final = 1
_MAGIC: Final = b"HEADRSNP"
_HEADER: Final = struct.Struct("<8sIIQQ")
_CHECKSUM: Final = struct.Struct("<Q")
_HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size

_ADVICE: Final = "Restore the file from a backup."


def store(folder: Path, snapshot: StateSnapshot) -> None:
    """Make ``snapshot`` the current one, durably, and the current one the previous one.

    Raises:
        OSError: It could not be done. At least one of the snapshots that were there before still is.
    """
    body = snapshot.SerializeToString(deterministic=True)
    fields = _HEADER.pack(_MAGIC, _FORMAT_VERSION, _HEADER_BYTES, len(body), xxh3_64_intdigest(body))
    header = fields + _CHECKSUM.pack(xxh3_64_intdigest(fields))
    current = folder / SNAPSHOT_NAME
    unfinished = write_unfinished(current, (header, body))
    if current.exists():
        current.rename(folder / PREVIOUS_SNAPSHOT_NAME)
    unfinished.rename(current)
    sync_folder(folder)


def load(path: Path) -> StateSnapshot:
    """Read a snapshot.

    Raises:
        FileNotFoundError: There is none.
        StateDamagedError: It is not as it was written.
        UnsupportedFormatError: It was written by a newer release.
    """
    contents = path.read_bytes()
    if len(contents) < _HEADER_BYTES or not contents.startswith(_MAGIC):
        raise StateDamagedError(path, 0, "the file does not begin like a snapshot", _ADVICE)
    fields, body = contents[: _HEADER.size], contents[_HEADER_BYTES:]
    if _CHECKSUM.unpack_from(contents, _HEADER.size) != (xxh3_64_intdigest(fields),):
        raise StateDamagedError(path, 0, "the header does not match its checksum", _ADVICE)
    _, version, header_bytes, body_length, body_checksum = _HEADER.unpack(fields)
    if (version, header_bytes) != (_FORMAT_VERSION, _HEADER_BYTES):
        raise UnsupportedFormatError(path, f"has format version {version}")
    if len(body) != body_length or xxh3_64_intdigest(body) != body_checksum:
        raise StateDamagedError(path, _HEADER_BYTES, "the body does not match its checksum", _ADVICE)
    try:
        return StateSnapshot.FromString(body)
    except DecodeError as error:
        # The checksum matched: this is what was written.
        raise UnsupportedFormatError(path, "holds an unknown state") from error
