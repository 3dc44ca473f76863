"""Conditions that a checkout fulfils before a release is built from it."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
_UNRELEASED: Final = "Unreleased"


def version(root: Path = ROOT) -> str:
    """Return the version of the distribution `headrace`, which all parts have."""
    found: str = _toml(root / "pyproject.toml")["project"]["version"]
    return found


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return each place that states the version, and the version there."""
    headrace, spark = (_toml(root / path)["project"] for path in ("pyproject.toml", "spark/pyproject.toml"))
    found = {
        "pyproject.toml": headrace["version"],
        "spark/pyproject.toml": spark["version"],
        "core/Cargo.toml": _toml(root / "core/Cargo.toml")["workspace"]["package"]["version"],
    }
    requirements = {
        "pyproject.toml": [*headrace["dependencies"], *chain.from_iterable(headrace["optional-dependencies"].values())],
        "spark/pyproject.toml": spark["dependencies"],
    }
    for path, required in requirements.items():
        for requirement in required:
            if own := re.fullmatch(r"((?:headrace-core|pyspark-headrace)(?:\[\w+])?)==(.+)", requirement):
                found[f"{path}, requirement {own[1]}"] = own[2]
    for package in _toml(root / "core/Cargo.lock")["package"]:
        if package["name"] == "headrace-python":
            found["core/Cargo.lock, headrace-python"] = package["version"]
    for path in ("web/package.json", "web/client/package.json", "web/console/package.json"):
        package = json.loads((root / path).read_text(encoding="utf-8"))
        found[path] = package["version"]
        for name, wanted in package.get("dependencies", {}).items():
            if name.startswith("@headrace/"):
                found[f"{path}, requirement {name}"] = wanted
    return found


def licenses(root: Path = ROOT) -> list[Path]:
    """Return the copies of the license that published packages need in their own directories."""
    return [root / path / "LICENSE" for path in ("core/python", "spark", "web/client")]


def changes(text: str, title: str) -> str:
    """Return the entries of one section of a changelog.

    Args:
        text: The changelog.
        title: A version, or `Unreleased`. The heading may go on with a date, as in `## 0.1.0 - 2026-11-30`.
    """
    found = re.search(
        rf"^## \[?{re.escape(title)}]?(?: - \d{{4}}-\d\d-\d\d)?\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    return found[1].strip() if found else ""


def problems(root: Path = ROOT, *, is_rehearsal: bool = False) -> list[str]:
    """Return what speaks against a release of this checkout, each as a sentence with what to do.

    Args:
        root: The checkout.
        is_rehearsal: Permit uncommitted changes, and a changelog whose changes are still unreleased.
    """
    wanted = version(root)
    found = [
        f"{place}: the version is {stated}, and that of pyproject.toml is {wanted}: change it, then run `make lock`"
        for place, stated in versions(root).items()
        if stated != wanted
    ]
    license_text = (root / "LICENSE").read_bytes()
    found += [
        f"{path.relative_to(root)} differs from LICENSE: copy it"
        for path in licenses(root)
        if not path.is_file() or path.read_bytes() != license_text
    ]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if is_rehearsal:
        if not (changes(changelog, wanted) or changes(changelog, _UNRELEASED)):
            found.append(
                f"CHANGELOG.md has no changes, neither of {wanted} nor unreleased ones: describe what has changed"
            )
        return found
    if not changes(changelog, wanted):
        found.append(f"CHANGELOG.md has no section of {wanted}: rename `## Unreleased` to `## {wanted} - YYYY-MM-DD`")
    if changes(changelog, _UNRELEASED):
        found.append(f"CHANGELOG.md has unreleased changes: move them to the section of {wanted}")
    if changed := _git(root, "status", "--porcelain"):
        found.append(f"the checkout has uncommitted changes, {changed.splitlines()[0].strip()} among them: commit them")
    return found


def commit_time(root: Path = ROOT) -> int:
    """Return when the checked-out commit was made, in seconds since 1970: the time that files of the release get."""
    return int(_git(root, "show", "--no-patch", "--format=%ct", "HEAD"))


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603, S607


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
