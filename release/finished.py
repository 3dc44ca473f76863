"""Checks of finished wheels, and of an installation from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename

from release.building import PYTHON_DISTRIBUTIONS, Target
from release.checkout import ROOT

EXTRAS: Final = {
    "headrace": {"avro", "delta", "jobs", "otel", "postgres", "spark", "tables", "tracing"},
    "headrace-core": set[str](),
    "pyspark-headrace": {"jobs", "pyspark"},
}
"""The distributions, and the extras of each."""
URLS: Final = {"Homepage", "Documentation", "Changelog", "Issues", "Source"}
BUILT: Final = {
    "headrace": ("headrace/aio/awaited/admin.py", "headrace_gateway/console/static/index.html"),
    "headrace-core": (
        "headrace_core/_protocol.pyi",
        "headrace_proto/errors.py",
        "headrace_proto/catalog/v1/__init__.py",
    ),
}
"""Files of the distributions that git does not have: one of each kind."""
SIZE_MAX: Final = 15 << 20
"""Bytes of a wheel: more than three times that of the largest one, so that something unintended is noticed."""
COMPILERS: Final = ("cc", "gcc", "clang", "cargo", "rustc", "node", "npm")
"""Programs that an installation must not need."""


def problems(wheel: Path, version: str) -> list[str]:
    """Return what is wrong with a wheel, each as a sentence.

    Args:
        wheel: The wheel.
        version: The version that it should have.
    """
    name, found, _, _ = parse_wheel_filename(wheel.name)
    wrong = [] if str(found) == version else [f"its version is {found}, not {version}"]
    with zipfile.ZipFile(wheel) as archive:
        names = [PurePosixPath(entry) for entry in archive.namelist()]
        (information,) = {path.parts[0] for path in names if path.parts[0].endswith(".dist-info")}
        try:
            metadata = Metadata.from_email(archive.read(f"{information}/METADATA"), validate=True)
        except ExceptionGroup as group:
            return [*wrong, *(f"its metadata are invalid: {error}" for error in group.exceptions)]
    wrong += _incomplete(metadata, EXTRAS[name])
    if PurePosixPath(information, "licenses/LICENSE") not in names:
        wrong.append("it does not contain the license")
    wrong += [f"it does not contain {path}" for path in BUILT.get(name, ()) if PurePosixPath(path) not in names]
    if any("tests" in path.parts or path.suffix == ".pyc" for path in names):
        wrong.append("it contains tests or compiled files")
    if wheel.stat().st_size > SIZE_MAX:
        wrong.append(f"it has {wheel.stat().st_size >> 20} MiB")
    return wrong


def missing(wheels: list[Path], targets: list[Target], version: str) -> list[str]:
    """Return which wheels of a release are not there, and which are not part of it."""
    tag = version.replace("-", "_")
    wanted = {f"{name.replace('-', '_')}-{tag}-py3-none-any.whl" for name in PYTHON_DISTRIBUTIONS}
    wanted |= {f"headrace_core-{tag}-cp311-abi3-{target.tag}.whl" for target in targets}
    found = {wheel.name for wheel in wheels}
    return [f"{name} is missing" for name in sorted(wanted - found)] + [
        f"{name} is not part of the release" for name in sorted(found - wanted)
    ]


def install(wheels: Path, environment: Path, version: str, uv: Path) -> Path:
    """Install `headrace` with the locked dependencies in a new environment without compilers; return its Python.

    Args:
        wheels: Directory of the wheels of this release. All others come from the package index.
        environment: Directory of the new environment.
        version: The version of `headrace`.
        uv: The program uv.
    """
    locked = environment.with_suffix(".txt")
    export: list[str | Path] = [
        uv,
        "export",
        "--quiet",
        "--locked",
        "--all-packages",
        "--all-extras",
        "--no-emit-workspace",
    ]
    subprocess.run([*export, "--no-hashes", "--output-file", locked], cwd=ROOT, check=True)  # noqa: S603
    # Nothing of this machine but its shared libraries and certificates.
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    alone["PATH"] = str(environment / "bin")
    if found := [program for program in COMPILERS if shutil.which(program, path=alone["PATH"])]:
        raise RuntimeError(f"the environment has {', '.join(found)}, which an installation must not need")
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)  # noqa: S603
    python = environment / "bin/python"
    command: list[str | Path] = [uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", python]
    command += ["--find-links", wheels, "--constraint", locked, f"headrace=={version}"]
    subprocess.run(command, cwd=environment, env=alone, check=True)  # noqa: S603
    answer = subprocess.run(  # noqa: S603
        [environment / "bin/headrace", "--version"],
        cwd=environment,
        env=alone,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if version not in answer:
        raise RuntimeError(f"the installed `headrace --version` prints {answer!r}, not {version}")
    return python


def _incomplete(metadata: Metadata, extras: set[str]) -> list[str]:
    wrong = [
        f"its metadata have no {field.replace('_', ' ')}"
        for field in ("summary", "description", "keywords", "classifiers", "requires_python", "license_expression")
        if not getattr(metadata, field)
    ]
    if not (metadata.description_content_type or "").startswith("text/markdown"):
        wrong.append(f"its description has the type {metadata.description_content_type}, not text/markdown")
    if lacking := URLS - set(metadata.project_urls or {}):
        wrong.append(f"its metadata have no address of {', '.join(sorted(lacking))}")
    if set(metadata.provides_extra or ()) != extras:
        wrong.append(f"its extras are {sorted(metadata.provides_extra or ())}, not {sorted(extras)}")
    return wrong
