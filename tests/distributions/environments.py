"""Environments into which wheels are installed, as users have them: nothing in them comes from a checkout."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UV: Final = ROOT / ".cache/uv/bin/uv"
_HIDDEN: Final = ("HEADRACE_", "IGGY_", "PYTHON", "VIRTUAL_ENV", "COVERAGE_")


def variables(**more: str) -> dict[str, str]:
    """Return variables without any that would let a process find this checkout, or change a setting."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)} | more


def build_wheels(directory: Path, checkout: Path = ROOT) -> Path:
    """Build the wheels of a checkout in a directory and return it; the native one is built already where tests run.

    The wheels of this checkout are those of `make release`, if `HEADRACE_DIST` names their directory.
    """
    if checkout == ROOT and (built := os.environ.get("HEADRACE_DIST")):
        directory.mkdir(exist_ok=True)
        for wheel in (ROOT / built).glob("*.whl"):
            if wheel.match("*-any.whl") or wheel.match(f"*-manylinux_*_{platform.machine()}.whl"):
                shutil.copy(wheel, directory)
        return directory
    subprocess.run(
        ["make", "--no-print-directory", "wheels", "PROFILE=dev", f"DIST={directory}"], cwd=checkout, check=True
    )
    return directory


def locked(output: Path, checkout: Path = ROOT) -> Path:
    """Write the locked versions of the dependencies of all distributions, with their extras, as constraints."""
    command: list[str | Path] = [UV, "export", "--quiet", "--locked", "--all-packages", "--all-extras"]
    command += ["--no-emit-workspace", "--no-hashes", "--output-file", output]
    subprocess.run(command, cwd=checkout, check=True)
    return output


def install(wheels: Iterable[Path], environment: Path, constraints: Path) -> Path:
    """Install wheels, over what is there already, and return the directory of the programs.

    Args:
        wheels: The wheels.
        environment: Directory of the environment, which is created if it is missing.
        constraints: Versions of the dependencies.
    """
    if not environment.exists():
        subprocess.run([UV, "venv", "--quiet", "--python", ROOT / ".venv/bin/python", environment], check=True)
    command: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", environment / "bin/python"]
    command += ["--constraint", constraints, *(f"--reinstall-package={_name(wheel)}" for wheel in wheels), *wheels]
    subprocess.run(command, check=True, cwd=environment, env=variables())
    return environment / "bin"


def _name(wheel: Path) -> str:
    return wheel.name.partition("-")[0]
