"""Rules for directories and packages: few files in each, and no import cycles."""

import subprocess
import tomllib
from collections import Counter
from pathlib import Path, PurePath
from typing import Final

import grimp
import pytest
from tests.architecture.cycles import cycles

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = {".rs", ".py", ".ts", ".tsx"}
FILES_MAX: Final = 20
"""Maximum number of source files in a directory; a larger one has more than one purpose."""
CONTRACTS: Final = tomllib.loads(Path(__file__).with_name("imports.toml").read_text(encoding="utf-8"))
PACKAGES: Final = CONTRACTS["tool"]["importlinter"]["root_packages"]


def test_directories_have_few_files() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [PurePath(name) for name in listed.splitlines()]
    counts = Counter(str(path.parent) for path in paths if path.suffix in SOURCES)
    assert not {directory: count for directory, count in counts.items() if count > FILES_MAX}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_of_a_package_import_each_other(package: str) -> None:
    assert not cycles(grimp.build_graph(package, exclude_type_checking_imports=True))


def test_cycles_are_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]:
        graph.add_import(importer=importer, imported=imported)
    assert cycles(graph) == [{"a", "b", "c"}]
