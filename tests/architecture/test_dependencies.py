"""One release of each third-party crate, with the exceptions that other crates force on the workspace."""

import tomllib
from collections import defaultdict
from pathlib import Path

LOCK = Path(__file__).resolve().parents[2] / "core" / "Cargo.lock"

# Crates locked in two releases, each with the crate that holds the older one. An entry goes when its holder moves on.
HELD_BY = {
    "bit-vec": "yasna (rcgen, in tests) needs 0.9, proptest 0.10",
    "foldhash": "hashbrown 0.15",
    "getrandom": "ring needs 0.2, ahash (arrow) 0.3",
    "hashbrown": "petgraph (prost-build) needs 0.15",
    "itertools": "criterion (benchmarks) needs 0.13, prost 0.15",
    "num-bigint": "der-parser (x509-parser) needs 0.4, arrow 0.5",
    "r-efi": "getrandom 0.3 (ahash) needs 5; not built on Linux",
    "syn": "derive macros of prost, zerocopy, logos and others need 2, those of pyo3, serde and thiserror 3",
    "windows-sys": "ring needs 0.52; not built on Linux",
}


def test_a_crate_is_locked_in_one_release_unless_another_crate_holds_an_older_one() -> None:
    releases = defaultdict(set)
    for package in tomllib.loads(LOCK.read_text())["package"]:
        releases[package["name"]].add(package["version"])

    assert {name for name, versions in releases.items() if len(versions) > 1} == HELD_BY.keys()
