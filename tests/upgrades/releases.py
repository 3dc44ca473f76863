"""Servers of any release, and what they wrote."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.distributions.environments import variables
from tests.up_process import up

RECORDED: Final = Path(__file__).with_name("recorded")
"""Data directories of releases: `VERSION.tar.xz`, made with `python -m tests.upgrades.record`."""
PROGRAMS: Final = Path(sys.executable).parent
"""Directory of the programs of this checkout."""
PARTS: Final = 2
"""Parts of a data directory before it is upgraded."""
_CONTENT: Final = Path(__file__).with_name("content.py")
_STOP_SECONDS: Final = 60
_CONTENT_SECONDS: Final = 120
# So small that the messages fill several segments.
_SETTINGS: Final = {"HEADRACE_SYSTEM_SEGMENT_SIZE": "64 KiB", "HEADRACE_SYSTEM_MEMORY_POOL_SIZE": "512 MiB"}


def environment() -> dict[str, str]:
    """Return variables of a server or a program of any release; only the driver is that of the test."""
    return variables(**{name: os.environ[name] for name in ("HEADRACE_RUNTIME_DRIVER",) if name in os.environ})


@contextmanager
def serving(data: Path, programs: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the server of a release over a data directory; yield its URL and the process, which is killed at the end.

    Args:
        data: Data directory.
        programs: Directory of the release's programs.
    """
    options = () if data.exists() else ("--with-default-root-credentials",)
    with up(data, *options, program=programs / "headrace", environment=environment(), **_SETTINGS) as (
        process,
        printed,
    ):
        address = re.search(r"127\.0\.0\.1:\d+", printed)
        assert address is not None, printed
        yield f"headrace://{address[0]}", process


def content(command: str, url: str, part: int, data: Path, programs: Path) -> None:
    """Write or check content with the SDK of a release."""
    token = data.parent / "token"
    result = subprocess.run(
        [programs / "python", _CONTENT, command, url, str(part), token],
        cwd=data.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_CONTENT_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def written(data: Path, programs: Path) -> None:
    """Have a release write a data directory: one part before it stops in order, and one before it is killed."""
    with serving(data, programs) as (url, process):
        content("write", url, 0, data, programs)
        process.send_signal(signal.SIGINT)
        assert process.wait(_STOP_SECONDS) == 0
    with serving(data, programs) as (url, process):
        content("write", url, 1, data, programs)
        process.kill()


def checked(data: Path, programs: Path, parts: int = PARTS) -> None:
    """Have a release check what another one wrote, write more, and find that again after a restart."""
    for part in (parts, parts + 1):
        with serving(data, programs) as (url, process):
            content("check", url, part, data, programs)
            process.send_signal(signal.SIGINT)
            assert process.wait(_STOP_SECONDS) == 0


def pack(directory: Path, archive: Path) -> None:
    """Pack a data directory and the token beside it; holes take no space."""
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:xz") as packed:
        for name in ("data", "token"):
            packed.add(directory / name, name)


def unpack(archive: Path, directory: Path) -> Path:
    """Unpack what was recorded; return the data directory."""
    with tarfile.open(archive) as packed:
        # Python 3.11.3 and older have no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _path: member)
        packed.extractall(directory)
    return directory / "data"
