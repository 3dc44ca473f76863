"""Version of the contract, and where plugins declare theirs."""

from __future__ import annotations

from typing import Final

CONTRACT_VERSION: Final = 1
"""A plugin written for another version is refused before any of its code is imported."""

GROUPS: Final = {
    kind: f"headrace_connectors.v{CONTRACT_VERSION}.{kind}" for kind in ("sources", "sinks", "transforms", "codecs")
}
"""Groups of entry points, by kind. The version is in the name of the group, so that it is known without an import."""
