"""Lines of a file as bytes, with their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from headrace_connectors.sources.files.followed import Entry, OpenFile

_CHUNK_BYTES: Final = 256 * 1024


class Line(NamedTuple):
    """A line, or a part of one that is too long."""

    start: int
    """Place of its first byte in the file."""
    end: int
    """Place after it and its line break."""
    data: bytes
    """Bytes without the line break."""
    kind: Literal["line", "too_long", "rest"]
    """The rest of a line that is too long is not read."""
    has_end: bool = True
    """False if the line goes on after this part."""


@dataclass(frozen=True, slots=True)
class LineShape:
    """Form of lines.

    Args:
        newline: Line break, encoded; a line begins at a multiple of its length.
        size_max: Maximum number of bytes of a line.
    """

    newline: bytes
    size_max: int

    def lines(self, file: OpenFile, entry: Entry, *, is_complete: bool) -> Iterator[Line]:
        """Read the lines after the place of an entry, which is not changed.

        Args:
            file: The file.
            entry: Where to begin.
            is_complete: True if a last line without a line break is a line, too.
        """
        start, buffer, is_within = entry.offset, b"", entry.is_within_line
        # A cut is never within a character of a fixed width.
        size_max = max(self.size_max - self.size_max % len(self.newline), len(self.newline))
        while chunk := file.read(start + len(buffer), max(_CHUNK_BYTES, len(buffer))):
            buffer += chunk
            position = 0
            while (end := self._find(buffer, position)) >= 0:
                after = end + len(self.newline)
                kind: Literal["line", "too_long", "rest"] = "rest" if is_within else "line"
                if kind == "line" and end - position > size_max:
                    kind = "too_long"
                yield Line(start + position, start + after, buffer[position:end], kind)
                is_within, position = False, after
            start, buffer = start + position, buffer[position:]
            if len(buffer) > size_max + len(self.newline):
                # A line that is known to be too long is not kept, and not read again.
                yield Line(start, start + size_max, b"", "rest" if is_within else "too_long", has_end=False)
                is_within, start, buffer = True, start + size_max, buffer[size_max:]
        if is_complete and buffer:
            last: Literal["line", "too_long"] = "line" if len(buffer) <= size_max else "too_long"
            yield Line(start, start + len(buffer), buffer, "rest" if is_within else last)

    def _find(self, buffer: bytes, position: int) -> int:
        found = buffer.find(self.newline, position)
        while found >= 0 and found % len(self.newline):
            found = buffer.find(self.newline, found + 1)
        return found
