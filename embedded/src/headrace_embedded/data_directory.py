"""The data directory: used by one server at a time, with a product and a format that this release knows.

info.json             product and release that wrote the directory, and the catalog that it belongs to
catalogue_version     a version that the catalog has reached
headrace.lock         held by the running server
metadata/             the metadata replica; `catalog_identity`, a random number that partitions name as their catalog
streams/              the partitions; in `removed`, deleted ones whose files are not gone yet; in `set-aside`, files
                      that no partition owns
http/                 revoked tokens
scrub.json            how far the files of partitions were read again, and what of them is damaged
runtime/              state of the running server: current_config.toml; emptied at each start
"""

from __future__ import annotations

import datetime
import json
import secrets
import shutil
import string
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from headrace_chassis.directories import LOCK, locked, make_directory, replace_file
from headrace_chassis.errors import DirectoryInUse
from headrace_embedded.errors import DataDirectoryInUse, ForeignDataDirectory

PRODUCT = "headrace"
FORMAT_VERSION = 2
"""Version of the format of the whole directory; 1 stored the catalog in `state.messages`. A release opens only its own
format.
"""

METADATA = "metadata"
"""Subdirectory of the metadata replica."""

HTTP = "http"
"""Subdirectory of the HTTP API."""

VERSION = "catalogue_version"
"""File with a version that the catalog has reached."""

_INFO = "info.json"
_IDENTITY = "catalog_identity"
_IDENTITY_DIGITS = 32
_STREAMS = "streams"
_RUNTIME = "runtime"


@contextmanager
def opened(name: str, *, fresh: bool = False) -> Iterator[Path]:
    """Lock the data directory for the duration of a ``with`` block; create it if missing. Yield its absolute path.

    Args:
        name: Path as in the setting.
        fresh: Remove its contents first. Only a directory of this product is emptied.

    Raises:
        DataDirectoryInUse: Another server uses the directory.
        ForeignDataDirectory: The directory has other contents, or was written by a newer release.
        OSError: The directory cannot be created or written.
    """
    path = Path(name).expanduser().absolute()
    # Messages are confidential, so the directory is created private. The mode of an existing directory is kept.
    make_directory(path)
    # Before the lock as well: a directory of others is left without the file of the lock.
    _check_info(path, fresh=fresh)
    with _alone(path):
        _check_info(path, fresh=fresh)
        if fresh:
            _empty(path)
        if not (path / _INFO).exists():
            _write_info(path)
        shutil.rmtree(path / _RUNTIME, ignore_errors=True)
        make_directory(path / _RUNTIME)
        yield path


def check_metadata(path: Path) -> None:
    """Check that the metadata is not missing while there are messages; before a replica creates it anew.

    A new catalog hands out the numbers of the old one again, and would take the old messages for those of new topics.

    Raises:
        ForeignDataDirectory: There are partitions, and no metadata.
    """
    metadata = path / METADATA
    if not (metadata.exists() and any(metadata.iterdir())) and (partition := _a_partition(path)) is not None:
        raise ForeignDataDirectory(
            f"{metadata} is missing or empty, and {partition} has messages, which a new catalog would give to other "
            f"topics. Nothing was changed. Restore {METADATA}/, or move {path / _STREAMS} away to start without these "
            "messages, or give --fresh to delete everything in this directory"
        )


def claim(path: Path) -> str:
    """Assign the directory to the catalog in its metadata, if it belongs to none yet; return the catalog's identity.

    The identity is a random number beside the metadata, so that it is copied and lost with them.

    Raises:
        ForeignDataDirectory: The partitions belong to another catalog.
    """
    identity = path / METADATA / _IDENTITY
    if not identity.exists():
        replace_file(identity, f"{secrets.token_hex(16)}\n")
    catalog = identity.read_text(encoding="ascii", errors="replace").strip()
    if len(catalog) != _IDENTITY_DIGITS or not set(catalog) <= set(string.hexdigits):
        raise ForeignDataDirectory(
            f"{identity} is damaged: it has to be {_IDENTITY_DIGITS} hexadecimal digits, as `catalog` in "
            f"{path / _INFO}. Write them into it, if the metadata are those of this directory"
        )
    info = json.loads((path / _INFO).read_text(encoding="utf-8"))
    owner = info.get("catalog", "")
    if owner == catalog:
        return catalog
    if (partition := _a_partition(path)) is None:
        # There is nothing that an older catalog could give to others.
        (path / VERSION).unlink(missing_ok=True)
    elif owner:
        raise ForeignDataDirectory(
            f"{partition} belongs to the catalog {owner}, and {path / METADATA} has another one ({catalog}), which "
            f"would give its messages to other topics. No message was changed. Restore the {METADATA}/ that belongs to "
            f"it, or move {path / _STREAMS} away to start without these messages"
        )
    replace_file(path / _INFO, f"{json.dumps(info | {'catalog': catalog}, indent=2)}\n")
    return catalog


def check_version(path: Path, version: int, highest: int) -> None:
    """Check that the catalog is not older than the partitions.

    Raises:
        ForeignDataDirectory: The catalog has not reached a version that was used in this directory.
    """
    if version < highest:
        raise ForeignDataDirectory(
            f"the catalog in {path / METADATA} has version {version}, and the partitions in {path / _STREAMS} have "
            f"followed one up to version {highest}: it is an older copy, and would give messages of newer topics to "
            f"others. No message was changed. Restore the newest {METADATA}/, or restore {_STREAMS}/ of the same time "
            f"and remove {path / VERSION}"
        )


def _a_partition(path: Path) -> Path | None:
    """Return the directory of any partition that has files."""
    for partition in (path / _STREAMS).glob("[0-9]*/topics/*/partitions/*"):
        if any(partition.iterdir()):
            return partition
    return None


def write_current_config(path: Path, text: str) -> None:
    """Write the effective configuration of the running server, atomically."""
    replace_file(path / _RUNTIME / "current_config.toml", text)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    try:
        with locked(path):
            yield
    except DirectoryInUse as error:
        raise DataDirectoryInUse(
            f"{error}: stop it, or use another data directory (--data, HEADRACE_SYSTEM_PATH)"
        ) from None


def _check_info(path: Path, *, fresh: bool) -> None:
    file = path / _INFO
    try:
        info = json.loads(file.read_text(encoding="utf-8"))
        product, format_version = info["product"], int(info["format_version"])
    except FileNotFoundError:
        # A first start that is killed while it writes the file leaves the unfinished one.
        foreign = sorted(entry.name for entry in path.iterdir() if entry.name not in {LOCK, f"{_INFO}.unfinished"})
        if foreign:
            raise ForeignDataDirectory(
                f"{path} is not a Headrace data directory: it contains {foreign[0]!r} and no {_INFO}. Use an empty "
                "directory"
            ) from None
        return
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignDataDirectory(
            f"{file} cannot be parsed: {error!r}. Restore it, or use another data directory"
        ) from error
    if product != PRODUCT:
        raise ForeignDataDirectory(f"{path} belongs to {product!r}. Use another directory")
    if format_version < FORMAT_VERSION and not fresh:
        raise ForeignDataDirectory(
            f"{path} has format {format_version}, written by release {info.get('version', 'unknown')}; this release "
            f"({version(PRODUCT)}) stores the catalog in another form and cannot read it. Nothing was changed. Start "
            "the release that wrote it, use another directory, or give --fresh to delete everything in this one"
        )
    if format_version > FORMAT_VERSION and not fresh:
        raise ForeignDataDirectory(
            f"{path} has format {format_version}, written by release {info.get('version', 'unknown')}; this release "
            f"({version(PRODUCT)}) reads format {FORMAT_VERSION}. Start the newer release, or use another directory"
        )


def _empty(path: Path) -> None:
    # The marker goes last: after an interrupted removal the directory is still recognised as ours.
    entries = sorted(path.iterdir(), key=lambda entry: entry.name == _INFO)
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()


def _write_info(path: Path) -> None:
    info = {
        "product": PRODUCT,
        "version": version(PRODUCT),
        "format_version": FORMAT_VERSION,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    replace_file(path / _INFO, f"{json.dumps(info, indent=2)}\n")
