"""The stub of the native module says what the module really has."""

import subprocess
import sys
from pathlib import Path

# Of the package that the build wraps around the module; the stub describes what is inside it.
WRAPPER = r"""
headrace_core\.__all__
headrace_core\.headrace_core
"""


def test_the_stub_is_true(tmp_path: Path) -> None:
    allowlist = tmp_path / "allowlist"
    allowlist.write_text(WRAPPER)
    result = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "headrace_core", "--allowlist", allowlist],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
