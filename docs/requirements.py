"""Requirements and the tests that show them: the page of the site, and what is wrong with either.

    python docs/requirements.py           exit with 1 and say what is wrong
    python docs/requirements.py --page    print the page, which is part of the site

A test shows the requirements that its documentation mentions; the documentation of a module of tests counts for all of
them. An id that no requirement defines, a requirement that no test mentions, and one that `make test` does not show
are errors: its tests are those that are not marked `long` (tests/tiers.py). A requirement that is not met yet says
what is missing, and needs no test.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Final, NotRequired, TypedDict

ROOT: Final = Path(__file__).resolve().parents[1]
REGISTRY: Final = ROOT / "docs" / "requirements.toml"
ID: Final = re.compile(r"\b(?:LOG|SHARD|CTL|GW|CON|SPK|USE)-\d+\b")
SUFFIXES: Final = {".rs", ".py", ".ts", ".tsx"}

INTRODUCTION: Final = """\
# Requirements

Comments and tests name requirements by the ids of this page. It is made from `docs/requirements.toml` and from the
documentation of the tests; where a whole file of tests shows a requirement, only the file is listed.

{met} of {all} requirements are met. The others say what is missing.
"""


class Group(TypedDict):
    """Requirements of one part of the product."""

    title: str
    requirements: dict[str, str]
    unmet: NotRequired[dict[str, str]]
    """Missing parts, by requirement."""


Shown = dict[str, dict[Path, set[str]]]
"""Tests by requirement and file; an empty name stands for all tests of the file."""


def mentions(text: str) -> set[str]:
    """Return the ids in a text."""
    return set(ID.findall(text))


def python_tests(path: Path, source: str, shown: Shown, quick: set[str]) -> None:
    """Add the tests of a Python module, which mention ids in docstrings, and to `quick` the ids of quick tests."""
    module = ast.parse(source)
    tests = [
        node
        for node in ast.walk(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and (node.name.lower().startswith("test") or mentions(ast.get_docstring(node) or ""))
    ]
    for requirement in mentions(ast.get_docstring(module) or ""):
        shown[requirement][path].add("")
        if any(is_quick(node) for node in tests):
            quick.add(requirement)
    for node in tests:
        for requirement in mentions(ast.get_docstring(node) or ""):
            shown[requirement][path].add(node.name if node.name.lower().startswith("test") else "")
            if is_quick(node):
                quick.add(requirement)


def is_quick(test: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether `make test` runs a test, at least with one of its cases: tests/tiers.py."""
    return not any(ast.unparse(decorator) == "pytest.mark.long" for decorator in test.decorator_list)


def rust_tests(path: Path, source: str, shown: Shown) -> None:
    """Add the tests of a Rust file: functions with `ctl_7_` in their names or an id in their documentation."""
    documentation = ""
    for line in source.splitlines():
        stripped = line.strip()
        if stripped.startswith("//!"):
            for requirement in mentions(stripped):
                shown[requirement][path].add("")
        elif stripped.startswith("///"):
            documentation += stripped
        elif match := re.match(r"(?:pub(?:\(\w+\))? )?(?:async )?fn (\w+)", stripped):
            named = re.match(r"(log|shard|ctl|gw|spk|use)_(\d+)_", match[1])
            found = mentions(documentation) | ({f"{named[1].upper()}-{named[2]}"} if named else set())
            for requirement in found:
                shown[requirement][path].add(match[1])
            documentation = ""
        elif not stripped.startswith(("#[", "proptest!")):
            for requirement in mentions(documentation) if stripped else ():
                shown[requirement][path].add("")
            documentation = ""


def is_test(path: Path) -> bool:
    """Return whether a file has tests: by its place, or in Rust by a module of them."""
    return "tests" in path.parts or path.name == "tests.rs" or "test" in path.name


def found_in_repository() -> tuple[Shown, dict[str, str], set[str]]:
    """Return the tests by requirement, for each id one file that mentions it, and the ids that `make test` shows."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - any git that is installed
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    shown: Shown = defaultdict(lambda: defaultdict(set))
    mentioned: dict[str, str] = {}
    quick: set[str] = set()
    for name in sorted(listed.stdout.splitlines()):
        path = Path(name)
        if path.suffix not in SUFFIXES or not (ROOT / path).is_file() or path == Path("docs/requirements.py"):
            continue
        source = (ROOT / path).read_text(encoding="utf-8")
        for requirement in mentions(source):
            mentioned.setdefault(requirement, name)
        if path.suffix == ".py" and is_test(path):
            python_tests(path, source, shown, quick)
        elif path.suffix == ".rs" and is_test(path):
            rust_tests(path, source, shown)
            # Integration tests of crates always run.
            quick |= {identifier for identifier, places in shown.items() if path in places}
        elif path.suffix == ".rs" and "#[cfg(test)]" in source:
            rust_tests(path, source[source.index("#[cfg(test)]") :], shown)
    return shown, mentioned, quick


def page(groups: list[Group], shown: Shown) -> str:
    """Return the text of the page."""
    every = sum(len(group["requirements"]) for group in groups)
    lines = [INTRODUCTION.format(met=every - sum(len(group.get("unmet", {})) for group in groups), all=every)]
    for group in groups:
        lines.append(f"## {group['title']}\n")
        for identifier, statement in group["requirements"].items():
            lines.append(f"### {identifier}\n\n{statement}\n")
            if missing := group.get("unmet", {}).get(identifier):
                lines.append(f"**Not yet.** {missing}\n")
            for path, tests in sorted(shown[identifier].items()):
                names = "" if "" in tests else ": " + ", ".join(f"`{name}`" for name in sorted(tests))
                lines.append(f"- [{path}](../{path}){names}")
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def render() -> str:
    """Return the page.

    Raises:
        SystemExit: The requirements or the tests are wrong; the text says what.
    """
    groups: list[Group] = tomllib.loads(REGISTRY.read_text(encoding="utf-8"))["group"]
    defined = {identifier for group in groups for identifier in group["requirements"]}
    unmet = {identifier for group in groups for identifier in group.get("unmet", {})}
    shown, mentioned, quick = found_in_repository()
    errors = [f"{mentioned[i]}: {i} is not defined in docs/requirements.toml" for i in sorted(set(mentioned) - defined)]
    errors += [f"docs/requirements.toml: {i} is unmet and not defined" for i in sorted(unmet - defined)]
    met = defined - unmet
    errors += [f"docs/requirements.toml: {i} is not mentioned by any test" for i in sorted(met - set(shown))]
    errors += [f"docs/requirements.toml: {i} has no test that make test runs" for i in sorted(met - quick)]
    if errors:
        raise SystemExit("\n".join(errors))
    return page(groups, shown)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Check the requirements and the tests that show them.")
    parser.add_argument("--page", action="store_true", help="print the page of the site")
    given = parser.parse_args()
    text = render()
    if given.page:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
