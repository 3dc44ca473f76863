"""Lists of the parts of a release, in CycloneDX, and the hashes of its files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Final

from release.checkout import ROOT

SUMS: Final = "SHA256SUMS"


def describe_core(wheel: Path, output: Path) -> Path:
    """Write the crates in a wheel of the native core: maturin has put the list into the wheel.

    Paths of this machine, which the list uses as names of our own crates, become paths in the repository.
    """
    with zipfile.ZipFile(wheel) as archive:
        (listed,) = (name for name in archive.namelist() if name.endswith(".cyclonedx.json"))
        text = archive.read(listed).decode()
    return _write(output / f"{wheel.stem}.cdx.json", text.replace(f"path+file://{ROOT}/", "path+file:///"))


def describe_python(python: Path, output: Path, version: str) -> Path:
    """Write the Python packages in an environment in which `headrace` is installed.

    Args:
        python: The interpreter of the environment.
        output: Directory of the result.
        version: The version of `headrace`.
    """
    command: list[str | Path] = [Path(sys.executable).parent / "cyclonedx-py", "environment", "--output-reproducible"]
    command += ["--pyproject", ROOT / "pyproject.toml", "--spec-version", "1.6", python]
    listed = json.loads(_printed(command))
    # Place of the wheels of this release when they were installed.
    for component in listed["components"]:
        references = component.get("externalReferences", [])
        kept = [reference for reference in references if not reference["url"].startswith("file:")]
        if references:
            component["externalReferences"] = kept
    return _write(output / f"headrace-{version}-python.cdx.json", json.dumps(listed, indent=2))


def describe_console(output: Path, version: str) -> Path:
    """Write the packages that are compiled into the console, which is part of the wheel of `headrace`."""
    command: list[str | Path] = ["npm", "--prefix", ROOT / "web", "sbom", "--sbom-format", "cyclonedx", "--omit", "dev"]
    listed = _printed([*command, "--workspace", "console"])
    return _write(output / f"headrace-{version}-console.cdx.json", listed)


def hash_files(directory: Path) -> Path:
    """Write the hash of every file of a directory, in the form that `sha256sum --check` reads."""
    sums = directory / SUMS
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(directory.iterdir())
        if path != sums
    ]
    return _write(sums, "".join(lines))


def _printed(command: list[str | Path]) -> str:
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(  # noqa: S603 - the commands are ours
        command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} has failed:\n{result.stderr}")
    return result.stdout


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
