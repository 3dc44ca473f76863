"""The import contracts of the Python packages, as `imports.toml` states them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = Path(__file__).with_name("imports.toml")


def test_import_contracts() -> None:
    """A service never imports another one; only `headrace_embedded` composes them."""
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", CONTRACTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
