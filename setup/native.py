"""The wheel of the native module: built once for each state of its sources, then kept.

    python setup/native.py sources                   print the files that the module is made of
    python setup/native.py wheel [--profile dev]     print the directory of the wheel; exit with 1 if it is not built
    python setup/native.py build [--profile dev]     build the wheel unless it is there, with .venv/bin/python

A wheel is kept in a directory that is named after the digest of the sources, the compiler and the profile. So a
checkout that returns to an earlier commit finds its wheel again, whatever the times of the files are. It runs before
any package is installed, with the standard library alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
WHEELS: Final = ROOT / ".cache" / "wheels"
KEPT: Final = 3
"""Number of wheels that are kept for each profile; each takes about 10 MB."""
PROFILES: Final = ("dev", "release")
_OTHER_CRATES: Final = {"lossy-disk", "sim"}
"""Crates that are not part of the module."""
_NOT_BUILT: Final = {"target", "tests", "benches", "examples", "fuzz"}
_DESCRIPTIONS: Final = {"errors.toml", "commands.toml", "layouts.toml"}
_GENERATED: Final = re.compile(
    r"core/python/(headrace_proto/(.*/.*|commands\.py|errors\.py)|headrace_core/_protocol\.pyi)"
)
"""Modules that proto/generate.py makes; it and what it reads are the sources."""
_COMPILERS: Final = re.compile(rb'^name = "(?:grpcio-tools|mypy-protobuf)"\nversion = ".*"', re.MULTILINE)
"""Packages in the lock file that decide what is generated."""


def sources(root: Path = ROOT) -> list[Path]:
    """Return the files that decide what the module does, relative to the root, without tests."""
    found = [*_below(root / "core", {".rs", ".pyi", ".py"}), *_below(root / "proto", {".proto"})]
    found += [path for path in (root / "proto").rglob("*.toml") if path.name in _DESCRIPTIONS]
    found += (root / "proto").glob("generate*.py")
    relative = (path.relative_to(root) for path in found)
    return sorted(path for path in relative if not _GENERATED.fullmatch(path.as_posix()))


def _below(directory: Path, suffixes: set[str]) -> Iterator[Path]:
    for parent, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name not in _NOT_BUILT | _OTHER_CRATES]
        for name in names:
            path = Path(parent, name)
            if name != "tests.rs" and (
                path.suffix in suffixes or name in {"Cargo.toml", "Cargo.lock", "pyproject.toml"}
            ):
                yield path


def digest(profile: str, root: Path = ROOT) -> str:
    """Return a name for the wheel that the present sources result in."""
    hasher = hashlib.sha256(profile.encode())
    hasher.update(_compiler())
    hasher.update(b"".join(_COMPILERS.findall((root / "uv.lock").read_bytes())))
    for path in sources(root):
        content = (root / path).read_bytes()
        hasher.update(f"{path}\0{len(content)}\0".encode())
        hasher.update(content)
    return hasher.hexdigest()[:16]


def _compiler() -> bytes:
    try:
        return subprocess.run(
            ["rustc", "--version", "--verbose"], cwd=ROOT / "core", capture_output=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        # Without Rust, a wheel cannot be built, and none is current.
        return b""


def directory(profile: str) -> Path:
    """Return the directory of the present wheel, which may be missing."""
    return WHEELS / f"{profile}-{digest(profile)}"


def is_built(wheels: Path) -> bool:
    """Return whether a directory has a wheel."""
    return any(wheels.glob("headrace_core-*.whl"))


def build(profile: str) -> int:
    """Build the wheel unless it is there, and return the exit status."""
    wheels = directory(profile)
    if is_built(wheels):
        os.utime(wheels)
        print(f"the wheel of these sources is there: {wheels.relative_to(ROOT)}", flush=True)
        return 0
    building = wheels.with_name(f"{wheels.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    programs = ROOT / ".venv/bin"
    # No bytecode beside the sources: cargo watches the directory.
    if status := subprocess.run([programs / "python", "-B", "proto/generate.py"], cwd=ROOT, check=False).returncode:
        return status
    command: list[str | Path] = [programs / "maturin", "build", "--profile", profile, "--locked"]
    command += ["--interpreter", programs / "python", "--out", building]
    with subprocess.Popen(command, cwd=ROOT / "core/python", stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            # The backend is `build_backend.py`, which uses maturin.
            if "`build-backend` in pyproject.toml is not set" not in line:
                print(line, end="", file=sys.stderr, flush=True)
    status = process.returncode
    if status == 0:
        # Complete or not there: a build that is interrupted leaves no wheel behind.
        building.rename(wheels)
        _remove_old(profile)
    return status


def _remove_old(profile: str) -> None:
    kept = sorted(WHEELS.glob(f"{profile}-*"), key=lambda path: path.stat().st_mtime, reverse=True)[:KEPT]
    for path in WHEELS.iterdir():
        if path not in kept and (path.name.startswith(f"{profile}-") or path.is_file()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main(arguments: list[str]) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="The wheel of the native module.")
    parser.add_argument("action", choices=["sources", "wheel", "build"])
    parser.add_argument("--profile", choices=PROFILES, default="dev")
    given = parser.parse_args(arguments)
    if given.action == "sources":
        print("\n".join(map(str, sources())))
        return 0
    if given.action == "build":
        return build(given.profile)
    wheels = directory(given.profile)
    if not is_built(wheels):
        return 1
    print(wheels.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
