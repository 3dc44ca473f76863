"""The tiers of tests, with pytest itself on a small directory of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import part_of

ROOT = Path(__file__).resolve().parents[2]
SUITE = """
import pytest

def test_quick(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.parametrize("form", ["one", pytest.param("other", marks=pytest.mark.long)])
def test_forms(form): pass

@pytest.mark.long(but=1)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_numbers(number): pass

@pytest.mark.long
class TestLong:
    def test_inside(self): pass
"""


def selected(directory: Path, *options: str) -> list[str]:
    """Return the names of the tests that run, in their order."""
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = long: l\n")
    (directory / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "tests.tiers", "-p", "no:cacheprovider", "-v", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    # Other plugins take longer to import than these tests take.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        command, cwd=directory, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split()[0].partition("::")[2] for line in done.stdout.splitlines() if "PASSED" in line]


def test_each_test_is_in_one_tier(tmp_path: Path) -> None:
    everything = selected(tmp_path)
    quick, long = selected(tmp_path, "--tier", "quick"), selected(tmp_path, "--tier", "long")
    numbers = ["test_numbers[2]", "test_numbers[3]"]
    assert quick == ["test_quick", "test_forms[one]", "test_numbers[1]"]
    assert sorted(long) == ["TestLong::test_inside", "test_forms[other]", "test_long", *numbers]
    assert sorted(everything) == sorted(quick + long)
    assert everything[: len(long)] == [test for test in everything if test in long], "long ones come first"


def test_the_parts_of_long_tests_are_all_of_them() -> None:
    files = [f"tests/test_{number}.py::test" for number in range(300)]
    for seed in ("7", "8"):
        parts = [{file for file in files if part_of(file, seed, f"{number}/3")} for number in (1, 2, 3)]
        assert sum(map(len, parts)) == len(files)
        assert set.union(*parts) == set(files)
        assert all(60 < len(part) < 140 for part in parts)
    assert {file for file in files if part_of(file, "7", "1/3")} != {
        file for file in files if part_of(file, "8", "1/3")
    }


def test_tests_of_a_file_stay_together() -> None:
    for number in range(20):
        assert part_of(f"a/test_{number}.py::test_one", "7", "1/2") == part_of(
            f"a/test_{number}.py::TestTwo::test", "7", "1/2"
        )


@pytest.mark.parametrize("part", ["0/3", "4/3", "1", "a/b", "1/3/5"])
def test_a_part_that_is_none(part: str) -> None:
    with pytest.raises(pytest.UsageError, match="it is I/N"):
        part_of("tests/test_a.py::test", "7", part)


def test_progress_is_written_for_another_program(tmp_path: Path) -> None:
    selected(tmp_path, "--tier", "quick", "--progress-file", str(tmp_path / "progress"))
    assert (tmp_path / "progress").read_text() == "3 0 3\n"
