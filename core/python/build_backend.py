"""Build backend of `headrace-core`: maturin, after the modules that are made of `proto` have been made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import maturin  # type: ignore[import-untyped]
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_GENERATOR: Final = Path(__file__).resolve().parents[2] / "proto/generate.py"


def build_wheel(directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Build a wheel and return the name of its file."""
    _generate()
    return str(maturin.build_wheel(directory, config_settings, metadata_directory))


def build_editable(directory: str, config_settings: object = None, metadata_directory: str | None = None) -> str:
    """Build a wheel that refers to the checkout, and return the name of its file."""
    _generate()
    return str(maturin.build_editable(directory, config_settings, metadata_directory))


def _generate() -> None:
    # No bytecode beside the sources: cargo watches the directory.
    subprocess.run([sys.executable, "-B", _GENERATOR], check=True)  # noqa: S603 - it is ours
