"""One owner per type: where the methods of Rust's types stand, which files need each other, and how large structs are.

The lists of exceptions are exact, so that they only shrink: what is mended leaves them, and nothing new enters.
"""

from pathlib import Path
from typing import Final

import grimp
import pytest
from tests.architecture.cycles import cycles
from tests.architecture.rust import CRATES, Crate, crate

NAMES: Final = sorted(path.name for path in CRATES.iterdir() if (path / "src").is_dir())

ELSEWHERE: Final[dict[str, set[str]]] = {
    "catalog": {"AccessToken", "Catalog", "Partition", "Permissions", "Stream", "Topic", "User"},
    "client": {"Client"},
    "link": {"Reader", "ToGateway", "ToNode"},
    "replica": {"DialResult", "ReplicaThread"},
    "sim": {"Node", "Schedule"},
}
"""Types by crate that have methods outside their own file and directory."""

CYCLE_FILES_MAX: Final = 4
CYCLES_MAX: Final = 5
"""Bounds of the cycles of all crates, once no crate is in the list below."""

CYCLES: Final[dict[str, list[int]]] = {
    "bench": [2, 3],
    "buffer": [4],
    "catalog": [8],
    "client": [2],
    "columns": [2, 2],
    "edge": [2],
    "engine": [2],
    "link": [2],
    "python": [2, 2, 2, 5],
    "replica": [3, 3, 10],
    "runtime": [2, 7],
    "sdk-core": [2],
    "shard": [2, 2, 2, 3],
    "sim": [2, 4, 6, 7, 8],
    "wire": [2, 4, 9],
}
"""Number of files in each cycle, by crate."""

FIELDS_MAX: Final = 16
SETTINGS_OR_STATISTICS: Final = ("Config", "Stats", "Status", "Report")
"""Ends of the names of structs that list values and own no state."""
TEST_PROGRAMS: Final = {"lossy-disk", "sim"}

LARGE: Final[dict[str, set[str]]] = {
    "catalog": {"Topic"},
    "replica": {"ReplicaThread"},
    "runtime": {"ThreadParts"},
    "sdk-core": {"Consumer"},
    "shard": {"Link", "Links", "Meter", "Pipeline"},
}
"""Structs by crate that have more fields."""


def _cycles_of(checked: Crate) -> list[set[str]]:
    graph = grimp.ImportGraph()
    for module in checked.modules():
        for needed in checked.needed(module):
            graph.add_import(importer=str(module.file), imported=str(needed))
    return sorted(cycles(graph), key=len)


@pytest.mark.parametrize("name", NAMES)
def test_methods_stand_with_their_type(name: str) -> None:
    """A type whose methods are spread over a crate has no owner: any method may change any field."""
    assert crate(name).elsewhere() == ELSEWHERE.get(name, set())


@pytest.mark.parametrize("name", NAMES)
def test_files_of_a_crate_do_not_need_each_other(name: str) -> None:
    """Files that need each other can only be read, and changed, together."""
    found = _cycles_of(crate(name))
    assert [len(files) for files in found] == CYCLES.get(name, []), found


def test_cycles_are_few_and_small() -> None:
    sizes = [size for name in NAMES if name not in CYCLES for size in map(len, _cycles_of(crate(name)))]
    assert len(sizes) <= CYCLES_MAX
    assert max(sizes, default=0) <= CYCLE_FILES_MAX


@pytest.mark.parametrize("name", sorted(set(NAMES) - TEST_PROGRAMS))
def test_structs_have_few_fields(name: str) -> None:
    """A struct of many fields is several things; they become values with fields and methods of their own."""
    structs = (struct for module in crate(name).modules() for struct in module.structs())
    large = {struct.name for struct in structs if struct.fields_count > FIELDS_MAX}
    assert {struct for struct in large if not struct.endswith(SETTINGS_OR_STATISTICS)} == LARGE.get(name, set())


def test_what_breaks_the_rules_is_found(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod part; mod whole; pub use whole::Whole;\n#[cfg(test)]\nmod tests { impl crate::Whole {} }",
        "whole.rs": "mod own; use crate::part::{self, Part};\n"
        "pub struct Whole<'a, T> { a: &'a T, b: (u8, u8), c: Vec<u8> }",
        "whole/own.rs": "impl<'a, T: Fn(u8) -> u8> super::Whole<'a, T> {}\nimpl From<u8> for crate::part::Part {}",
        "part.rs": "// impl Elsewhere {}\npub struct Part;\nimpl<'a, T> crate::Whole<'a, T> where T: Copy {}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = Crate(tmp_path)
    assert found.elsewhere() == {"Whole"}
    assert _cycles_of(found) == [{"part.rs", "whole.rs"}]
    assert [struct for module in found.modules() for struct in module.structs()] == [("Whole", 3)]
