"""Checks of the files of a data directory, whether a server uses it or not: what was set aside, and what is damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from headrace.cli.diagnosis.data_files import partitions_below
from headrace.cli.diagnosis.machine import failure, ok, warning
from headrace.cli.documents import CheckDocument

_NAMED_MAX: Final = 5
_SET_ASIDE: Final = re.compile(r"[0-9]{20}\.(cut|foreign)-[0-9]+|[0-9a-f]{32}\.stage-damaged")


def checks(data: Path) -> Iterator[CheckDocument]:
    """Check a data directory; nothing if it has no partitions."""
    if not (data / "streams").is_dir():
        return
    yield _damage(data)
    yield _set_aside(data)


def _damage(data: Path) -> CheckDocument:
    try:
        progress = json.loads((data / "scrub.json").read_bytes())
        damage: list[dict[str, Any]] = progress["damage"]
        places = [f"{place['path']}: {place['explanation']}" for place in damage]
    except FileNotFoundError:
        return ok("damaged files", "not known: no file was read again yet")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return warning("damaged files", f"scrub.json cannot be read: {error}", "the next pass of the scrub writes it")
    if not places:
        return ok("damaged files", "none found")
    return failure(
        "damaged files",
        _named(places),
        "restore these partitions from a copy, or see `headrace fsck` when the server is stopped: the rest is served",
    )


def _set_aside(data: Path) -> CheckDocument:
    kept = sorted(path for path in (data / "streams" / "set-aside").glob("*"))
    for partition in partitions_below(data):
        kept += sorted(file for file in partition.iterdir() if _SET_ASIDE.fullmatch(file.name))
    if not kept:
        return ok("set aside", "nothing")
    return warning(
        "set aside",
        _named([str(path.relative_to(data)) for path in kept]),
        "no server reads them: remove them when nothing of them is needed, or restore them to where they belong",
    )


def _named(places: list[str]) -> str:
    more = len(places) - _NAMED_MAX
    return "; ".join(places[:_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
