"""The data folder: one server at a time, of a product and a format that this release knows.

info.json             what wrote the folder
headrace.lock         held by the running server
metadata/             the metadata replica
streams/              the partitions
http/                 tokens that were revoked
runtime/              about the running server: current_config.toml; emptied at each start
"""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from headrace.embedded.errors import DataFolderInUse, ForeignDataFolder
from headrace_shards.errors import FolderInUse
from headrace_shards.folders import LOCK, locked, make_folder, replace_file

PRODUCT = "headrace"
FORMAT_VERSION = 2
"""Of everything in the folder together; 1 kept the catalogue in `state.messages`. A release opens its own format."""

METADATA = "metadata"
"""The folder of the metadata replica in it."""

HTTP = "http"
"""The folder of the HTTP interface in it."""

_INFO = "info.json"
_RUNTIME = "runtime"


@contextmanager
def opened(name: str, *, fresh: bool = False) -> Iterator[Path]:
    """Hold the data folder for the length of a ``with`` block; made if it is missing. Yields its absolute path.

    Args:
        name: The folder, as the setting says it.
        fresh: Remove everything in it first. Only a folder that is ours is emptied.

    Raises:
        DataFolderInUse: Another server works on it.
        ForeignDataFolder: It holds something else, or was written by a newer release.
        OSError: It cannot be made or written.
    """
    path = Path(name).expanduser().absolute()
    # Messages are not everybody's. What is there already is as its owner wants it.
    make_folder(path)
    with _alone(path):
        _check_info(path, fresh=fresh)
        if fresh:
            _empty(path)
        if not (path / _INFO).exists():
            _write_info(path)
        shutil.rmtree(path / _RUNTIME, ignore_errors=True)
        (path / _RUNTIME).mkdir()
        yield path


def write_current_config(path: Path, text: str) -> None:
    """Publish the effective configuration of the running server, at once and whole."""
    replace_file(path / _RUNTIME / "current_config.toml", text)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    try:
        with locked(path):
            yield
    except FolderInUse as error:
        raise DataFolderInUse(f"{error}: stop it, or use another folder (--data, HEADRACE_SYSTEM_PATH)") from None


def _check_info(path: Path, *, fresh: bool) -> None:
    file = path / _INFO
    try:
        info = json.loads(file.read_text(encoding="utf-8"))
        product, format_version = info["product"], int(info["format_version"])
    except FileNotFoundError:
        strangers = sorted(entry.name for entry in path.iterdir() if entry.name != LOCK)
        if strangers:
            raise ForeignDataFolder(
                f"{path} is not a Headrace data folder: it holds {strangers[0]!r} and no {_INFO}. Use an empty folder"
            ) from None
        return
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignDataFolder(f"{file} cannot be understood: {error!r}. Restore it, or use another folder") from error
    if product != PRODUCT:
        raise ForeignDataFolder(f"{path} belongs to {product!r}. Use another folder")
    if format_version < FORMAT_VERSION and not fresh:
        raise ForeignDataFolder(
            f"{path} has format {format_version}, written by release {info.get('version', 'unknown')}; this release "
            f"({version(PRODUCT)}) keeps its catalogue otherwise and cannot read it. Nothing was changed. Start the "
            "release that wrote it, use another folder, or give --fresh to remove everything in this one"
        )
    if format_version > FORMAT_VERSION and not fresh:
        raise ForeignDataFolder(
            f"{path} has format {format_version}, written by release {info.get('version', 'unknown')}; this release "
            f"({version(PRODUCT)}) knows format {FORMAT_VERSION}. Start the newer release, or use another folder"
        )


def _empty(path: Path) -> None:
    # The marker goes last: an interrupted removal is still recognised as ours.
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
