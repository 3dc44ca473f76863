"""Diagrams of ARCHITECTURE.md, drawn from the import order: `python -m tests.architecture.drawing` prints them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.architecture.test_crates import BELOW

ROOT: Final = Path(__file__).resolve().parents[2]
_CONTRACTS: Final = Path(__file__).with_name("imports.toml")


def diagrams() -> list[str]:
    """Return the blocks of Mermaid: crates, then Python packages."""
    return [_block(drawn) for drawn in (_crates(BELOW), _packages(_layers()))]


def _block(lines: Iterator[str]) -> str:
    return "\n".join(["```mermaid", "flowchart TD", *(f"    {line}" for line in lines), "```"])


def _crates(below: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the arrows from each crate to those that it stands on, without those that another arrow implies."""
    for name in sorted(below):
        implied = {lower for other in below[name] for lower in below[other]}
        direct = [lower.removeprefix("headrace-") for lower in sorted(below[name] - implied)]
        if direct:
            yield f"{name.removeprefix('headrace-')} --> {' & '.join(direct)}"


def _layers() -> list[str]:
    contracts = tomllib.loads(_CONTRACTS.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers: list[str] = contracts[0]["layers"]
    return layers


def _packages(layers: list[str]) -> Iterator[str]:
    """Yield a box for each layer, and the arrows from each to the one that it stands on."""
    for number, layer in enumerate(layers):
        yield f'subgraph layer{number}[" "]'
        yield from (f"    {name.strip()}" for name in layer.split("|"))
        yield "end"
    for number in range(len(layers) - 1):
        yield f"layer{number} --> layer{number + 1}"


if __name__ == "__main__":
    sys.stdout.write("\n\n".join([*diagrams(), ""]))
