"""The site, built once for the tests of a module."""

from __future__ import annotations

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
        timeout=120,
    )


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    result = build(ROOT / "mkdocs.yml", directory)
    assert result.returncode == 0, result.stderr
    return directory
