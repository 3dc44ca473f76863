"""Building the wheels: the native core for each target with Zig as its linker, and the distributions in Python."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.checkout import ROOT, commit_time

PYTHON_DISTRIBUTIONS: Final = ("headrace", "pyspark-headrace")


@dataclass(frozen=True)
class Target:
    """Kind of machine that one wheel of the native core is for."""

    triple: str
    """Name of the target in Rust."""
    platform: str
    """Platform in the name of the wheel, with the oldest C library that it runs with."""

    @property
    def tag(self) -> str:
        """Return the platform and the machine, as they stand in the name of the wheel."""
        return f"{self.platform}_{self.triple.partition('-')[0]}"


TARGETS: Final = (
    # glibc 2.28 is that of RHEL 8 and Debian 10; Zig links against the symbols that it had.
    Target("x86_64-unknown-linux-gnu", "manylinux_2_28"),
    Target("aarch64-unknown-linux-gnu", "manylinux_2_28"),
    # Alpine.
    Target("x86_64-unknown-linux-musl", "musllinux_1_2"),
    Target("aarch64-unknown-linux-musl", "musllinux_1_2"),
)


def build_core(target: Target, output: Path) -> None:
    """Build the wheel of the native core for a target.

    Args:
        target: The target; `rustup` gets its standard library first.
        output: Directory of the wheels.
    """
    _run(["rustup", "--quiet", "target", "add", target.triple])
    python = Path(sys.executable)
    _run([python, "-B", ROOT / "proto/generate.py"])
    command: list[str | Path] = [python.parent / "maturin", "build", "--quiet", "--release", "--locked", "--zig"]
    command += ["--target", target.triple, "--compatibility", target.platform, "--interpreter", python, "--out", output]
    _run(command, cwd=ROOT / "core/python", environment=_compilation())


def build_python(distribution: str, output: Path, uv: Path) -> None:
    """Build the wheel of a distribution that is the same on every platform.

    Args:
        distribution: Its name.
        output: Directory of the wheels.
        uv: The program uv.
    """
    command: list[str | Path] = [uv, "build", "--quiet", "--no-create-gitignore", "--wheel", "--python", sys.executable]
    command += ["--package", distribution, "--out-dir", output]
    _run(command, environment={"SOURCE_DATE_EPOCH": str(commit_time())})


def _compilation() -> dict[str, str]:
    """Return variables of a compilation without names of directories of this machine, and without debug information."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    flags = [f"--remap-path-prefix={cargo}=cargo", f"--remap-path-prefix={ROOT}=headrace"]
    return {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_PROFILE_RELEASE_DEBUG": "false",
        "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}",
        "SOURCE_DATE_EPOCH": str(commit_time()),
    }


def _run(command: list[str | Path], *, cwd: Path = ROOT, environment: Mapping[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env={**os.environ, **(environment or {})}, check=True)  # noqa: S603 - the commands are ours
