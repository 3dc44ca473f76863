"""An upgrade from the previous release: its wheels, its data directory, and the wheels of this checkout over both."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from release import checkout
from tests.distributions.environments import ROOT, UV, build_wheels, install, locked, variables
from tests.upgrades.releases import checked, written

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headrace/releases"
"""Wheels of earlier releases, by tag: building them takes minutes."""


def previous_tag(directory: Path = ROOT) -> str | None:
    """Return the newest tag of a release before the checked-out commit; None before the first release."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"]
    found = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def wheels_of(tag: str, directory: Path, repository: Path = ROOT, cache: Path = CACHE) -> tuple[Path, Path]:
    """Return the wheels of a release and the versions of their dependencies; build what is not in the cache."""
    kept = cache / tag
    source = directory / tag
    if not kept.exists():
        clone = ["git", "clone", "--quiet", "--shared", "--branch", tag, "--config", "advice.detachedHead=false"]
        subprocess.run([*clone, repository, source], check=True)
        wheels = build_wheels(directory / f"{tag}-wheels", source)
        locked(wheels / "locked.txt", source)
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Under its name there is either nothing or everything.
        shutil.copytree(wheels, kept.with_suffix(".new"), dirs_exist_ok=True)
        kept.with_suffix(".new").rename(kept)
        shutil.rmtree(source)
    return kept, kept / "locked.txt"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_an_upgrade_keeps_everything(tmp_path: Path) -> None:
    """Before the first release the previous wheels are those of this checkout: still one installation over another."""
    own = build_wheels(tmp_path / "own"), locked(tmp_path / "locked.txt")
    tag = previous_tag()
    wheels, constraints = wheels_of(tag, tmp_path) if tag is not None else own
    sys.stdout.write(f"upgraded from {tag or 'this checkout: there is no earlier release'}\n")
    programs = install(sorted(wheels.glob("*.whl")), tmp_path / "environment", constraints)
    data = tmp_path / "data"
    written(data, programs)
    assert install(sorted(own[0].glob("*.whl")), tmp_path / "environment", own[1]) == programs
    version = subprocess.run(
        [programs / "headrace", "--version"], cwd=tmp_path, env=variables(), check=True, capture_output=True, text=True
    )
    assert version.stdout.split() == ["headrace", checkout.version()]
    checked(data, programs)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with tags, whose `make wheels` writes down from which one it was called."""
    directory = tmp_path / "repository"
    directory.mkdir()
    (directory / "pyproject.toml").write_text('[project]\nname = "it"\nversion = "1"\nrequires-python = ">=3.11"\n')
    (directory / "Makefile").write_text(
        "wheels:\n\tmkdir $(DIST) && git describe --tags --exact-match > $(DIST)/it.whl\n"
    )
    subprocess.run([UV, "lock", "--quiet", "--offline"], cwd=directory, check=True)
    git(directory, "init")
    git(directory, "add", ".")
    return directory


def git(directory: Path, *arguments: str) -> None:
    """Run a command of git."""
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


def test_the_previous_release_is_the_newest_tag_before_this_commit(repository: Path) -> None:
    for number in range(4):
        git(repository, "commit", "--allow-empty", "--message", str(number))
        if number == 0:
            assert previous_tag(repository) is None
        git(repository, "tag", f"v0.{number}.0")
        git(repository, "branch", f"other-{number}")
    assert previous_tag(repository) == "v0.2.0"


def test_wheels_of_a_tag_are_built_once(repository: Path, tmp_path: Path) -> None:
    for tag in ("v0.1.0", "v0.2.0"):
        git(repository, "commit", "--allow-empty", "--message", tag)
        git(repository, "tag", tag)
    wheels, constraints = wheels_of("v0.1.0", tmp_path, repository, tmp_path / "cache")
    assert (wheels / "it.whl").read_text() == "v0.1.0\n"
    assert constraints.is_file()
    shutil.rmtree(repository)
    assert wheels_of("v0.1.0", tmp_path, repository, tmp_path / "cache") == (wheels, constraints)
