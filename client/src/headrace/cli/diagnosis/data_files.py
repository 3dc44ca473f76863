"""Check of the files of a data directory, while no server uses it: `headrace fsck`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

from headrace.cli.operating_documents import FileFinding, FilesDocument
from headrace_core import CoreError, check_partition, inspect_replica

_WORKERS: Final = 2
_KINDS_WITHOUT_HARM: Final = frozenset({"torn", "set_aside"})


def partitions_below(directory: Path) -> list[Path]:
    """Return the directories of partitions, in the order of their numbers."""
    found = (directory / "streams").glob("[0-9]*/topics/[0-9]*/partitions/[0-9]*")
    return sorted((path for path in found if path.is_dir()), key=_ids)


def size_of(partition: Path) -> int:
    """Return the size of a partition's files in bytes."""
    return sum(file.stat().st_size for file in partition.iterdir() if file.is_file())


def is_problem(finding: FileFinding) -> bool:
    """Return whether a finding is more than a note, and was not repaired."""
    return finding["kind"] not in _KINDS_WITHOUT_HARM and not finding["repaired"]


def check(
    directory: Path, partitions: list[Path], *, repair: bool, on_checked: Callable[[Path], None]
) -> FilesDocument:
    """Check the files of a data directory.

    Args:
        directory: The data directory, which no server uses.
        partitions: Directories of its partitions.
        repair: Write what can be derived from other files.
        on_checked: Called after each partition.

    Raises:
        OSError: A file cannot be read, or a repair cannot be written.
    """
    info = _info(directory)
    catalog = _catalog(info or {})
    findings = [] if info is not None else [_finding("info.json", "damaged", "it is missing, or no JSON object")]
    findings += _around(directory, catalog)
    messages_count = bytes_count = 0

    def examined(partition: Path) -> tuple[Path, dict[str, Any]]:
        return partition, json.loads(check_partition(str(partition), _ids(partition), catalog, repair))

    with ThreadPoolExecutor(_WORKERS) as threads:
        for partition, result in threads.map(examined, partitions):
            messages_count += result["messages_count"]
            bytes_count += result["bytes"]
            place = partition.relative_to(directory)
            for found in result["findings"]:
                path = str(place / found.pop("file"))
                findings.append(cast("FileFinding", {"path": path, **found}))
            on_checked(partition)
    return {
        "directory": str(directory),
        "partitions_count": len(partitions),
        "messages_count": messages_count,
        "bytes": bytes_count,
        "problems_count": sum(is_problem(finding) for finding in findings),
        "findings": findings,
    }


def _ids(partition: Path) -> tuple[int, int, int]:
    stream, _, topic, _, number = partition.parts[-5:]
    return int(stream), int(topic), int(number)


def _info(directory: Path) -> dict[str, Any] | None:
    try:
        info = json.loads((directory / "info.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) else None


def _catalog(info: dict[str, Any]) -> str:
    """Return the identity of the catalog that the partitions belong to; empty if it is not known."""
    catalog = str(info.get("catalog") or info.get("cluster_id") or "")
    try:
        int(catalog, 16)
    except ValueError:
        return ""
    return catalog


def _around(directory: Path, catalog: str) -> Iterator[FileFinding]:
    """Check the files that are no partition's."""
    version = directory / "catalogue_version"
    if version.exists():
        from headrace_embedded.catalog_identity import damaged_versions  # noqa: PLC0415 - one command needs it

        for position in damaged_versions(version):
            yield _finding(version.name, "damaged", "a recorded version is damaged; the other one counts", position)
    metadata = directory / "metadata"
    if metadata.is_dir():
        yield from _metadata(metadata, catalog)
    for name in ("set-aside", "removed"):
        place = directory / "streams" / name
        if place.is_dir():
            for partition in sorted(place.iterdir()):
                explanation = (
                    "files that no partition owns: remove them when they are not needed"
                    if name == "set-aside"
                    else "a deleted partition, which the next start removes"
                )
                yield _finding(str(partition.relative_to(directory)), "set_aside", explanation)


def _metadata(metadata: Path, catalog: str) -> Iterator[FileFinding]:
    try:
        problems = json.loads(inspect_replica(str(metadata), 0, 0))["problems"]
    except CoreError as error:
        problems = [str(error)]
    for problem in problems:
        yield _finding("metadata", "damaged", problem)
    identity = metadata / "catalog_identity"
    if identity.exists() and catalog and identity.read_bytes().decode("ascii", "replace").strip() != catalog:
        yield _finding("metadata/catalog_identity", "foreign", f"info.json names the catalog {catalog}")


def _finding(path: str, kind: str, explanation: str, position: int | None = None) -> FileFinding:
    return {
        "path": path,
        "kind": kind,
        "position": position,
        "bytes": None,
        "offset": None,
        "messages_count": None,
        "repaired": False,
        "explanation": explanation,
    }
