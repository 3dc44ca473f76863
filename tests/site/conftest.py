"""The site, built once for all tests, whichever workers run them."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MKDOCS = ROOT / ".venv/bin/mkdocs"


def build(configuration: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make check` does."""
    return subprocess.run(
        [str(MKDOCS), "build", "--strict", "--config-file", str(configuration), "--site-dir", str(site)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the site. It has each page as Markdown, too, those that are made of the product among them."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    directory, built = shared / "site", shared / "site-is-built"
    with (shared / "site-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            result = build(ROOT / "mkdocs.yml", directory)
            assert result.returncode == 0, result.stderr
            built.touch()
    return directory
