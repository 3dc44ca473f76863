"""Selection of the tests that a set of changed files can affect."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.changed.modules import NATIVE, Files, closure

ROOT: Final = Path(__file__).resolve().parents[2]
_NATIVE_CRATE: Final = "headrace-python"
_SIMULATED: Final = {"headrace-vsr", "headrace-sim"}
_EVERYTHING: Final = (
    "Makefile",
    "pyproject.toml",
    "uv.lock",
    "conftest.py",
    "core/Cargo.toml",
    "core/Cargo.lock",
    "core/rust-toolchain.toml",
)
"""Files on which anything may depend."""
_DIRECTORIES: Final = {
    "web": ("tests/console", "tests/journeys/test_browser.py", "tests/journeys/test_readme.py"),
    "docs": (
        "tests/architecture",
        "tests/journeys/test_readme.py",
        "tests/site",
        "spark/tests/documents/test_readme.py",
    ),
    "mkdocs.yml": ("tests/site",),
    "release": ("tests/distributions",),
}
"""Directories of non-Python files, or single files, and the tests that read them."""
_MESSAGES: Final = Path("core/python/headrace_proto/__init__.py")
"""Stand-in for the modules that are made of `proto`."""
_CONTAINERS: Final = "compose"
_DASHBOARDS: Final = Path("compose/dashboards")


@dataclass(slots=True)
class Selection:
    """Part of the tests that has to run."""

    crates: list[str] = field(default_factory=list)
    is_simulated: bool = False
    """True if the change reaches the replication core, whose simulator then runs as well."""
    tests: list[str] = field(default_factory=list)
    spark_tests: list[str] = field(default_factory=list)
    is_everything: str = ""
    """First changed file on which anything may depend; empty if none has changed."""
    notes: list[str] = field(default_factory=list)
    """Messages for the user."""


def select(changed: Iterable[Path], files: Files) -> Selection:
    """Select tests.

    Args:
        changed: Changed and deleted files, relative to the root.
        files: All files of the checkout.
    """
    changed, selection = set(changed), Selection()
    for path in sorted(changed):
        if str(path) in _EVERYTHING:
            selection.is_everything = str(path)
            return selection
    crates = _crates_reached(changed)
    selection.crates = sorted(crates - {_NATIVE_CRATE})
    selection.is_simulated = bool(crates & _SIMULATED)
    # Include non-Python files: a test may name a document or a table.
    begin = changed | ({NATIVE} if _NATIVE_CRATE in crates else set())
    if any(path.parts[0] == "proto" for path in changed):
        begin.add(_MESSAGES)
    tests = {str(path) for path in files.reached_from(begin) if _is_test(path)}
    for path in changed:
        tests |= set(_DIRECTORIES.get(path.parts[0], ()))
        if path.is_relative_to(_DASHBOARDS):
            tests.add("tests/apis/http/monitoring/test_dashboard.py")
        elif path.parts[0] == _CONTAINERS:
            selection.notes.append("compose/ has changed: make cluster-test is not part of this")
    tests = {test for test in tests if (ROOT / test).exists() and not test.startswith("tests/containers")}
    selection.tests = sorted(test for test in tests if not test.startswith("spark/"))
    selection.spark_tests = sorted(test for test in tests if test.startswith("spark/"))
    selection.notes = sorted(set(selection.notes))
    return selection


def _is_test(path: Path) -> bool:
    return path.suffix == ".py" and path.name.startswith("test_")


def _crates_reached(changed: set[Path]) -> set[str]:
    described = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", "core/Cargo.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    packages = json.loads(described)["packages"]
    directories = {package["name"]: Path(package["manifest_path"]).parent.relative_to(ROOT) for package in packages}
    users: dict[Path, set[Path]] = {}
    for package in packages:
        for dependency in package["dependencies"]:
            if dependency["name"] in directories:
                users.setdefault(directories[dependency["name"]], set()).add(directories[package["name"]])
    begin = {directory for path in changed for directory in directories.values() if directory in path.parents}
    if any(path.parts[0] == "proto" and path.suffix in {".proto", ".toml"} for path in changed):
        begin |= {directories["headrace-proto"], directories["headrace-wire"]}
    reached = closure(begin, users)
    return {name for name, directory in directories.items() if directory in reached}
