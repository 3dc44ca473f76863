"""The index of the decisions has each of them, with its title and its status."""

import re
from pathlib import Path
from typing import Final

DECISIONS: Final = Path(__file__).resolve().parents[2] / "docs/decisions"
INDEX: Final = (DECISIONS / "README.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| (\d+) \| \[(.+)]\((\d{4}-[a-z0-9-]+\.md)\) \| (.+) \|$", re.MULTILINE)
STATUS: Final = re.compile(r"in force(, amended (in its own text|by .+))?|superseded by .+")


def test_the_index_has_each_decision() -> None:
    rows = {name: (number, title) for number, title, name, _ in ROW.findall(INDEX)}
    files = {path.name: path.read_text(encoding="utf-8").splitlines()[0] for path in DECISIONS.glob("[0-9]*.md")}
    assert {name: f"# {number}. {title}" for name, (number, title) in rows.items()} == files
    assert all(int(name[:4]) == int(number) for name, (number, _) in rows.items())
    assert [int(number) for number, *_ in ROW.findall(INDEX)] == sorted(int(name[:4]) for name in files)


def test_each_has_a_status() -> None:
    for number, _, name, status in ROW.findall(INDEX):
        assert STATUS.fullmatch(status), number
        assert all((DECISIONS / other).is_file() for other in re.findall(r"\]\((.+?)\)", status)), number
        supersedes = re.search(r"^\*?Superseded by decision (\d+)", (DECISIONS / name).read_text("utf-8"), re.MULTILINE)
        assert status.startswith("superseded") == bool(supersedes), number
        if supersedes:
            assert f"[{supersedes[1]}]" in status, number


def test_gaps_in_the_numbers_are_explained() -> None:
    table, _, gaps = INDEX.partition("## Numbers without a decision")
    numbers = {int(number) for number, *_ in ROW.findall(table)}
    missing = set(range(1, max(numbers) + 1)) - numbers
    explained = {
        int(number)
        for line in re.findall(r"^- ([\d, and]+) ", gaps, re.MULTILINE)
        for number in re.findall(r"\d+", line)
    }
    assert explained == missing
