"""The list of checks in docs/connectors.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.journeys.test_readme import ROOT

PAGE: Final = ROOT / "docs/connectors.md"
PLACES: Final = ("tests", "services/connectors/tests", "client/tests/commands")


def functions(directory: Path) -> set[str]:
    """Return the names of the test functions below a directory."""
    texts = (file.read_text(encoding="utf-8") for file in directory.rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)}


def test_each_check_is_a_test_that_exists() -> None:
    """CON-11: every row of the list has one at least, where the page says that they are."""
    _, section = PAGE.read_text(encoding="utf-8").split("## Which checks show it?\n")
    rows = re.findall(r"^\| (?!check |---)(.*?) \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) > 50
    known = set().union(*(functions(ROOT / place) for place in PLACES))
    for check, tests in rows:
        names = re.findall(r"`(test_\w+)`", tests)
        assert names, check
        assert set(names) <= known, check
