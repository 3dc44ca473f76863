"""The order of the parts within the crate `shard`."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARD = ROOT / "core" / "crates" / "shard" / "src"
ABOVE = re.compile(r"\b(sessions|routing|dispatch)::|\bimpl Shard\b|\buse crate::Shard\b|^\s+Shard,$", re.MULTILINE)


def test_hosting_knows_neither_connections_nor_links() -> None:
    """Decision 60: partitions answer calls, whichever way these come."""
    sources = [SHARD / "hosting.rs", *sorted((SHARD / "hosting").rglob("*.rs"))]
    assert len(sources) > 1
    for source in sources:
        found = ABOVE.search(re.sub(r"//.*", "", source.read_text(encoding="utf-8")))
        assert not found, f"{source.relative_to(ROOT)} names {found[0]}"
