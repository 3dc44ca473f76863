"""Files that each file of the repository needs: by imports, and by module names and paths in string literals.

Many files are started or read by name: a service by its module, a command by a table, a document by its path. A string
literal that equals the name of a module or the path of a file counts as an import. The selection may include too much;
names permitting, it does not include too little. `make test` is authoritative.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

NATIVE: Final = Path("core/python/headrace_core/__init__.pyi")
"""Stand-in for the native module, which is built and not imported from a file."""
_BLOCKING: Final = Path("client/src/headrace/sdk/blocking")
"""Sources of `headrace.aio.awaited`, which is made from them."""
_TEST_ROOTS: Final = (Path("spark/tests"), Path("spark/tests/jobs"))
"""Directories whose modules are imported by their bare names."""


class Files:
    """Files of a checkout and the direct dependencies of each."""

    def __init__(self, root: Path, paths: Iterable[Path]) -> None:
        """Read every Python file.

        Args:
            root: Root directory of the repository.
            paths: All files of the repository, relative to the root.
        """
        self._root = root
        self._paths = set(paths)
        self._modules = {name: path for path in self._paths if path.suffix == ".py" for name in _names(path)}
        self._modules["headrace_core"] = NATIVE
        for path in self._paths:
            if path.parent == _BLOCKING:
                self._modules[f"headrace.aio.awaited.{path.stem}"] = path
        self._needs = {path: set(self._needed_by(path)) for path in self._paths if path.suffix == ".py"}

    def reached_from(self, changed: Iterable[Path]) -> set[Path]:
        """Return every file that depends on one of `changed`, directly or transitively, and `changed` itself."""
        users: dict[Path, set[Path]] = {}
        for path, needed in self._needs.items():
            for other in needed:
                users.setdefault(other, set()).add(path)
        return closure(changed, users)

    def _needed_by(self, path: Path) -> Iterator[Path]:
        # pytest loads the `conftest.py` files of the parent directories for tests; other modules have these from the
        # tests that import them.
        is_loaded_by_pytest = path.name.startswith("test_") or path.name == "conftest.py"
        for directory in (path.parent, *path.parent.parents) if is_loaded_by_pytest else ():
            if (conftest := directory / "conftest.py") in self._paths and conftest != path:
                yield conftest
        tree = ast.parse((self._root / path).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    yield from self._found(alias.name for alias in names)
                case ast.ImportFrom(module=str(module), names=names):
                    yield from self._found([module, *(f"{module}.{alias.name}" for alias in names)])
                case ast.Constant(value=str(text)):
                    yield from self._found([text, f"{text}.__main__"])
                    yield from self._named(path, text)

    def _found(self, names: Iterable[str]) -> Iterator[Path]:
        for name in names:
            parts = name.split(".")
            for length in range(len(parts), 0, -1):
                if (module := ".".join(parts[:length])) in self._modules:
                    yield self._modules[module]

    def _named(self, path: Path, text: str) -> Iterator[Path]:
        if not text or len(text) > 200 or "\n" in text:
            return
        for directory in (Path(), path.parent):
            named = directory / text
            if named in self._paths:
                yield named


def closure(begin: Iterable[Path], edges: Mapping[Path, Iterable[Path]]) -> set[Path]:
    """Return everything that can be reached along the edges."""
    found: set[Path] = set()
    waiting = list(begin)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += edges.get(path, ())
    return found


def _names(path: Path) -> Iterator[str]:
    """Yield the names under which a file can be imported."""
    parts = path.with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    yield ".".join(parts)
    if "src" in parts:
        yield ".".join(parts[parts.index("src") + 1 :])
    if path.parent in _TEST_ROOTS:
        yield path.stem
