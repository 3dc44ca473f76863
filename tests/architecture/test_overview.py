"""ARCHITECTURE.md: its diagrams are those of the import order, and its walks open few files, all of which exist."""

import re
from pathlib import Path

import pytest
from tests.architecture.drawing import ROOT, diagrams

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
CRATES = Path("core/crates")


def test_the_diagrams_are_current() -> None:
    """`python -m tests.architecture.drawing` prints them."""
    assert re.findall(r"^```mermaid\n.*?^```$", TEXT, re.DOTALL | re.MULTILINE) == diagrams()


@pytest.mark.parametrize(("title", "files_max"), [("a batch", 25), ("a turn of a shard", 8)])
def test_a_walk_is_short(title: str, files_max: int) -> None:
    """The files that have to be opened to follow it can be read in one sitting."""
    heading = f"### Which files does {title} pass?"
    assert heading in TEXT
    walk = TEXT.split(heading)[1].split("\n#")[0]
    files = re.findall(r"^\| `([\w/.-]+\.rs)` \|", walk, re.MULTILINE)
    assert 0 < len(files) == len(set(files)) <= files_max
    assert [name for name in files if not (ROOT / CRATES / name).is_file()] == []
