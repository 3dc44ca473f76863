"""Product code of the crates: their files, the structs and `impl` blocks in these, and which file needs which."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.architecture import lexer

ROOT: Final = Path(__file__).resolve().parents[2]
CRATES: Final = ROOT / "core" / "crates"

_PUBLIC: Final = r"(?:pub(?:\([^)]*\))?\s+)?"
_MODULE: Final = re.compile(rf"(?P<test>#\[cfg\(test\)\]\s*)?{_PUBLIC}\bmod\s+(?P<name>\w+)\s*(?P<end>[;{{])")
_ITEM: Final = re.compile(
    r"^(?:[\w()]+\s+)*?(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(\w+)", re.MULTILINE
)
_TYPE: Final = re.compile(r"^\s*" + _PUBLIC + r"(?:struct|enum|union)\s+(\w+)", re.MULTILINE)
_FIELDS: Final = re.compile(r"\bstruct\s+(?P<name>\w+)[^;{(]*\{")
_IMPL: Final = re.compile(r"^\s*(?:unsafe\s+)?impl\b(?P<head>[^{;]*)\{", re.MULTILINE)
_USE: Final = re.compile(r"\buse\s+(?P<tree>[^;]+);")
_PATH: Final = re.compile(r"(?<![\w:.$])(?P<path>[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+)")


def _after_braces(code: str, opening: int) -> int:
    """Return the position behind the brace that closes the one at `opening`."""
    depth = 0
    for position in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return position + 1
    return len(code)


def _without_tests(code: str) -> str:
    """Leave out the modules of tests that stand in a file."""
    while found := next((m for m in _MODULE.finditer(code) if m["test"] and m["end"] == "{"), None):
        code = code[: found.start()] + code[_after_braces(code, found.end() - 1) :]
    return code


def _split(text: str, separator: str = ",") -> Iterator[str]:
    """Split at separators that stand within no brackets."""
    depth, begin = 0, 0
    for position, character in enumerate(text):
        is_arrow = character == ">" and text[position - 1 : position] in ("-", "=")
        depth += 0 if is_arrow else dict.fromkeys("([{<", 1).get(character, 0) - (character in ")]}>")
        if depth == 0 and character == separator:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


def _imported(tree: str, before: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return each name that a `use` brings in, with its path."""
    tree = tree.strip().removeprefix("::")
    head, brace, rest = tree.partition("{")
    path = before + tuple(part.strip() for part in head.split("::") if part.strip())
    if brace:
        for branch in _split(rest.rpartition("}")[0]):
            if branch.strip():
                yield from _imported(branch, path)
        return
    *parents, last = path
    last, _, alias = (part.strip() for part in last.partition(" as "))
    path = tuple(parents) if last == "self" else (*parents, last)
    yield alias or path[-1], path


class Struct(NamedTuple):
    """A struct, with the number of its fields."""

    name: str
    fields_count: int


@dataclass(eq=False)
class Module:
    """A file of a crate."""

    file: Path
    """Within the sources of the crate."""
    name: tuple[str, ...]
    """Path of the module, without `crate`."""
    code: str
    """Without comments, literals and tests."""
    children: dict[str, "Module"] = field(default_factory=dict)
    uses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that are imported, with their paths."""
    globs: list[tuple[str, ...]] = field(default_factory=list)
    items: set[str] = field(default_factory=set)
    """Names that are defined here."""

    @property
    def directory(self) -> Path | None:
        """Directory of this module's own submodules; none for the root of a crate."""
        if not self.name:
            return None
        return self.file.parent if self.file.name == "mod.rs" else self.file.with_suffix("")

    def types(self) -> set[str]:
        """Names of the types that are defined here."""
        return set(_TYPE.findall(self.code))

    def structs(self) -> Iterator[Struct]:
        """Structs with named fields."""
        for found in _FIELDS.finditer(self.code):
            body = self.code[found.end() : _after_braces(self.code, found.end() - 1) - 1]
            fields = [entry for entry in _split(body) if re.search(r"\w\s*:", entry)]
            yield Struct(found["name"], len(fields))

    def implemented(self) -> set[str]:
        """Names of the types that have an inherent `impl` here."""
        names = set()
        for found in _IMPL.finditer(self.code):
            head = found["head"].strip()
            if head.startswith("<"):
                head = _behind_generics(head)
            head = head.partition(" where ")[0]
            if not re.search(r"\bfor\b", head) and (name := re.match(r"\s*(?:\w+::)*(\w+)", head)):
                names.add(name[1])
        return names


def _behind_generics(text: str) -> str:
    depth = 0
    for position, character in enumerate(text):
        is_arrow = character == ">" and text[position - 1] in "-="
        depth += 0 if is_arrow else {"<": 1, ">": -1}.get(character, 0)
        if depth == 0:
            return text[position + 1 :]
    return text


class Crate:
    """The modules that a crate's library, or else its program, consists of."""

    def __init__(self, sources: Path) -> None:
        self.sources = sources
        library = sources / "lib.rs"
        self.root = self._read(library if library.exists() else sources / "main.rs", ())

    def _read(self, file: Path, name: tuple[str, ...]) -> Module:
        code = _without_tests(lexer.code_of(file))
        module = Module(file.relative_to(self.sources), name, code)
        for use in _USE.finditer(code):
            for local, path in _imported(use["tree"]):
                if local == "*":
                    module.globs.append(path[:-1])
                else:
                    module.uses[local] = path
        module.items = set(_ITEM.findall(code))
        directory = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.with_suffix("")
        for found in _MODULE.finditer(code):
            if found["end"] == ";" and not found["test"]:
                child = found["name"]
                candidates = (directory / f"{child}.rs", directory / child / "mod.rs")
                at = next((path for path in candidates if path.exists()), None)
                if at is not None:
                    module.children[child] = self._read(at, (*name, child))
        return module

    def modules(self) -> Iterator[Module]:
        """Return all modules."""
        waiting = [self.root]
        while waiting:
            module = waiting.pop()
            waiting.extend(module.children.values())
            yield module

    def _at(self, name: tuple[str, ...]) -> Module:
        module = self.root
        for part in name:
            module = module.children[part]
        return module

    def owner(self, module: Module, path: tuple[str, ...], seen: frozenset[tuple[Path, str]]) -> Module | None:
        """Return the module in which the item with this path stands, as `module` sees it; none for other crates."""
        first, rest = path[0], path[1:]
        if first == "crate":
            return self._within(self.root, rest, seen)
        if first == "self":
            return self._within(module, rest, seen)
        if first == "super":
            return self._within(self._at(module.name[:-1]), rest, seen) if module.name else None
        if first in module.children or first in module.uses:
            return self._within(module, path, seen)
        return None

    def _within(self, module: Module, path: tuple[str, ...], seen: frozenset[tuple[Path, str]]) -> Module | None:
        if not path or (module.file, path[0]) in seen:
            return module
        first, rest = path[0], path[1:]
        if first == "super":
            return self._within(self._at(module.name[:-1]), rest, seen)
        if first in module.children:
            return self._within(module.children[first], rest, seen)
        seen |= {(module.file, first)}
        if first in module.uses and first not in module.items:
            return self.owner(module, (*module.uses[first], *rest), seen)
        for glob in module.globs if first not in module.items else ():
            source = self.owner(module, glob, seen)
            if source is not None and source is not module:
                found = self._within(source, (first,), seen)
                if found is not None and first in found.items:
                    return found
        return module

    def needed(self, module: Module) -> set[Path]:
        """Return the files whose items this one names."""
        paths = {(*path, "*") for path in module.globs} | set(module.uses.values())
        paths |= {tuple(re.split(r"\s*::\s*", found["path"])) for found in _PATH.finditer(module.code)}
        owners = {self.owner(module, path, frozenset()) for path in map(tuple, paths)}
        return {owner.file for owner in owners if owner is not None} - {module.file}

    def elsewhere(self) -> set[str]:
        """Return the types that have an inherent `impl` outside their own file and their own directory."""
        homes: dict[str, list[Module]] = {}
        for module in self.modules():
            for name in module.types():
                homes.setdefault(name, []).append(module)
        return {
            name
            for module in self.modules()
            for name in module.implemented()
            if name in homes and not any(_is_at_home(module.file, home) for home in homes[name])
        }


def _is_at_home(file: Path, home: Module) -> bool:
    return file == home.file or (home.directory is not None and home.directory in file.parents)


@cache
def crate(name: str) -> Crate:
    """Return a crate of the workspace by the name of its directory."""
    return Crate(CRATES / name / "src")
