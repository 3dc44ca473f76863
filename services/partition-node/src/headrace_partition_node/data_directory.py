"""The data directory of a partition node: for one node of one cluster, used by one process at a time.

info.json             owner of the directory
catalogue_version     the newest version of the catalog that was used
scrub.json            how far the files of partitions were read again, and what of them is damaged
headrace.lock         held by the running process
streams/              the partitions; in `removed`, deleted ones whose files are not gone yet
"""

from __future__ import annotations

import datetime
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final, Self

from headrace_chassis.directories import LOCK, locked, make_directory, replace_file
from headrace_partition_node.errors import ForeignDirectory

PRODUCT: Final = "headrace-partition-node"
_RELEASE: Final = version("headrace")
FORMAT_VERSION: Final = 1
"""Version of the format of the whole directory. A release opens only its own format."""

_INFO: Final = "info.json"
_VERSION: Final = "catalogue_version"
# A write of one sector is atomic.
_SLOT_BYTES: Final = 512
_SLOTS_COUNT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """Owner of the data directory."""

    product: str
    format_version: int
    version: str
    """Release that created the directory."""
    created_at: str
    node_name: str
    cluster_name: str
    cluster_id: str = ""
    """Cluster id, which comes from its name; empty until the metadata service has reported it."""
    cluster_catalog: str = ""
    """Identity of the cluster's catalog; empty until the metadata service has reported one."""
    catalog: str = ""
    """Catalog that the partitions name; empty: the cluster id, as in directories that were made before there was an
    identity.
    """
    registered: int = 0
    """Incarnation of the last registered run; 0: none."""
    registering: int = 0
    """Incarnation of the last run that requested registration; the request may have succeeded."""


class DataDirectory:
    """The data directory of this process."""

    def __init__(self, path: Path, info: Info) -> None:
        self._path = path
        self._info = info

    @property
    def path(self) -> Path:
        """Absolute path."""
        return self._path

    @property
    def was_registered(self) -> bool:
        """True if the cluster knows this directory."""
        return self._info.registered != 0

    @property
    def catalog(self) -> str:
        """Identity of the catalog that the partitions name; empty if no cluster has claimed the directory."""
        return self._info.catalog or self._info.cluster_id

    def is_of(self, incarnation: int) -> bool:
        """Return whether the last run in this directory, or the one before, had this incarnation."""
        return incarnation in {self._info.registered, self._info.registering}

    def claim(self, cluster_id: str, catalog: str) -> None:
        """Assign the directory to this cluster, if it belongs to none yet.

        Args:
            cluster_id: Id of the cluster.
            catalog: Identity of its catalog; empty if it is not known.

        Raises:
            ForeignDirectory: The directory belongs to another cluster.
        """
        info = self._info
        for what, owner, claimant in (
            ("id", info.cluster_id, cluster_id),
            ("catalog", info.cluster_catalog, catalog),
        ):
            if owner and claimant and owner != claimant:
                raise ForeignDirectory(
                    f"{self._path} belongs to another cluster with the name {info.cluster_name!r} "
                    f"({what} {owner}; this one has {claimant}). Nothing was changed. Check "
                    "cluster.metadata, or use another directory (system.path)"
                )
        claimed = replace(
            info,
            cluster_id=cluster_id,
            cluster_catalog=info.cluster_catalog or catalog,
            catalog=info.catalog if info.cluster_id else catalog,
        )
        if claimed != info:
            self._write(claimed)

    def registering(self, incarnation: int) -> None:
        """Record that a run is about to request registration."""
        self._write(replace(self._info, registering=incarnation))

    def registered(self) -> None:
        """Record that the run is registered."""
        self._write(replace(self._info, registered=self._info.registering))

    def found(self, incarnation: int) -> None:
        """Complete the record of the last run if it was registered without learning of it.

        Only two incarnations are stored: the next run replaces the one that requested registration last.

        Args:
            incarnation: The one that the cluster has.
        """
        if incarnation == self._info.registering != self._info.registered:
            self.registered()

    def _write(self, info: Info) -> None:
        replace_file(self._path / _INFO, f"{json.dumps(asdict(info), indent=2)}\n")
        self._info = info


@contextmanager
def opened(name: str, *, node_name: str, cluster_name: str) -> Iterator[DataDirectory]:
    """Lock the data directory for the duration of a ``with`` block; create it if missing.

    Args:
        name: Path as in the setting.
        node_name: Name of this node.
        cluster_name: Name of its cluster.

    Raises:
        DirectoryInUse: Another process uses the directory.
        ForeignDirectory: The directory belongs to another node, or was written by a newer release.
        OSError: The directory cannot be created or written.
    """
    path = Path(name).expanduser().absolute()
    # Messages are confidential, so the directory is created private. The mode of an existing directory is kept.
    make_directory(path)
    with locked(path):
        info = _read_info(path)
        if info is None:
            info = Info(
                product=PRODUCT,
                format_version=FORMAT_VERSION,
                version=_RELEASE,
                created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                node_name=node_name,
                cluster_name=cluster_name,
            )
            replace_file(path / _INFO, f"{json.dumps(asdict(info), indent=2)}\n")
        for what, found, configured in (
            ("node", info.node_name, node_name),
            ("cluster", info.cluster_name, cluster_name),
        ):
            if found != configured:
                raise ForeignDirectory(
                    f"{path} belongs to the {what} {found!r}, and this process is configured as {configured!r} "
                    f"({what}.name). Nothing was changed. Correct the name, or use another directory (system.path)"
                )
        yield DataDirectory(path, info)


def _read_info(path: Path) -> Info | None:
    file = path / _INFO
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        product, format_version = found["product"], int(found["format_version"])
    except FileNotFoundError:
        foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in {LOCK, f"{_INFO}.unfinished"})
        if foreign:
            raise ForeignDirectory(
                f"{path} is not the data directory of a partition node: it contains {foreign[0]!r} and no {_INFO}. "
                "Use an empty directory (system.path)"
            ) from None
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignDirectory(
            f"{file} cannot be parsed: {error!r}. Restore it, or use another data directory"
        ) from error
    if product != PRODUCT:
        raise ForeignDirectory(f"{path} belongs to {product!r}. Use another directory (system.path)")
    if format_version > FORMAT_VERSION:
        raise ForeignDirectory(
            f"{path} has format {format_version}, written by release {found.get('version', 'unknown')}; this release "
            f"({_RELEASE}) reads format {FORMAT_VERSION}. Start the newer release, or use another directory"
        )
    try:
        return Info(**found)
    except TypeError as error:
        raise ForeignDirectory(f"{file} cannot be parsed: {error}. Restore it, or use another directory") from error


class HighestVersion:
    """The newest catalog version used in this directory. A version is on disk before it is used.

    A lagging replica of the metadata service may return an older catalog that lacks existing partitions. A restarted
    node detects that only by this version.
    """

    def __init__(self, descriptor: int, version: int, slot: int) -> None:
        self._descriptor = descriptor
        self._version = version
        self._slot = slot

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[Self]:
        """Open the file for the duration of a ``with`` block.

        Raises:
            ForeignDirectory: The file is damaged.
            OSError: The file cannot be read or created.
        """
        path = directory / _VERSION
        if not path.exists():
            replace_file(path, _encoded(0) * _SLOTS_COUNT)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            stored = os.pread(descriptor, _SLOTS_COUNT * _SLOT_BYTES, 0)
            versions = [_decoded(stored[slot * _SLOT_BYTES :][:_SLOT_BYTES]) for slot in range(_SLOTS_COUNT)]
            known = [(version, slot) for slot, version in enumerate(versions) if version is not None]
            if not known:
                raise ForeignDirectory(
                    f"{path} is damaged. Without it, a catalog too old for this directory cannot be detected. Remove "
                    "it when all replicas of the metadata service are up to date"
                )
            yield cls(descriptor, *max(known))
        finally:
            os.close(descriptor)

    @property
    def value(self) -> int:
        """Current version; 0 if there is none yet."""
        return self._version

    def raise_to(self, version: int) -> None:
        """Store a newer version durably. Blocks on the disk.

        Raises:
            OSError: The version cannot be written.
        """
        if version <= self._version:
            return
        # Write to the other slot: the previous version survives a power failure during the write.
        slot = (self._slot + 1) % _SLOTS_COUNT
        os.pwrite(self._descriptor, _encoded(version).encode(), slot * _SLOT_BYTES)
        os.fdatasync(self._descriptor)
        self._version, self._slot = version, slot


def damaged_slots(contents: bytes) -> list[int]:
    """Return the positions of the damaged records in the contents of the file with the newest version."""
    positions = range(0, _SLOTS_COUNT * _SLOT_BYTES, _SLOT_BYTES)
    return [position for position in positions if _decoded(contents[position:][:_SLOT_BYTES]) is None]


def _encoded(version: int) -> str:
    text = f"{version:020d}"
    return f"{text} {zlib.crc32(text.encode()):08x}".ljust(_SLOT_BYTES - 1) + "\n"


def _decoded(slot: bytes) -> int | None:
    text, _, checksum = slot.strip().partition(b" ")
    if not text.isdigit() or checksum != f"{zlib.crc32(text):08x}".encode():
        return None
    return int(text)
