"""The stub of the native module says what the module really has."""

import subprocess
import sys
from pathlib import Path

# Of the package that the build wraps around the module; the stub describes what is inside it,
# in two parts. That an object has the
# buffer protocol can be seen since Python 3.12.
ALLOWED = r"""
headrace_core\.(headrace_core|_protocol)
(headrace_core\.ColumnBuffer\.__buffer__)?
"""


def test_the_stub_is_true(tmp_path: Path) -> None:
    allowlist = tmp_path / "allowlist"
    allowlist.write_text(ALLOWED)
    result = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "headrace_core", "--allowlist", allowlist],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
