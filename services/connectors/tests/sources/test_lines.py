"""CON-42: lines of a file, as a property."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_connectors.sources.files.followed import Entry, OpenFile
from headrace_connectors.sources.files.lines import LineShape


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    st.integers(1, 40),
    st.booleans(),
)
def test_lines_come_once_wherever_reading_begins_anew(tmp_path_factory, lines, size_max, is_complete):
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(b"\n".join(lines))
    file, shape = OpenFile(str(path)), LineShape(b"\n", size_max)
    entry = Entry(number=1, path=str(path), device=0, inode=0)
    found = []
    while (line := next(shape.lines(file, entry, is_complete=is_complete), None)) is not None:
        assert line.start == entry.offset
        entry.offset, entry.is_within_line = line.end, not line.has_end
        if line.kind != "rest":
            found.append(line)
    file.close()
    expected = lines if is_complete else lines[:-1]
    if is_complete and expected and not expected[-1]:
        expected = expected[:-1]
    sizes = [line for line in expected if len(line) <= size_max]
    assert [line.data for line in found if line.kind == "line"] == sizes
