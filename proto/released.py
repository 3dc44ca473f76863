"""Compare the ``.proto`` files with their released form, which clients, data directories and other nodes rely on.

    python proto/released.py --check   write nothing; exit with 1 and name incompatible changes
    python proto/released.py           make the current files the released form

The released form is checked in as ``released.binpb``. ``buf.yaml`` lists what ``--check`` forbids: removing, renaming,
renumbering and retyping. Additions pass, and are protected from the next release on. An element can be removed only
together with a new released form, and its name and number must be ``reserved``, so that they are never reused.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

PROTO_DIRECTORY: Final = Path(__file__).resolve().parent
RELEASED: Final = PROTO_DIRECTORY / "released.binpb"
_BUF: Final = PROTO_DIRECTORY.parent / "web" / "node_modules" / ".bin" / "buf"
# Exit code of buf for incompatible changes.
_INCOMPATIBLE: Final = 100
# Rules that hold even for a new release: the same bytes, and the same JSON, keep their meaning.
_ALWAYS: Final = {"version": "v2", "breaking": {"use": ["WIRE_JSON"], "ignore": ["headrace/control"]}}


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(description="Compare the .proto files with their released form.")
    parser.add_argument("--check", action="store_true", help="only say what is no longer compatible")
    options = parser.parse_args(arguments)

    problems = incompatibilities() if options.check else incompatibilities(is_release=True)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if problems:
        sys.stderr.write("see proto/released.py\n")
        return 1
    if not options.check:
        release()
    return 0


def incompatibilities(
    directory: Path = PROTO_DIRECTORY, released: Path = RELEASED, *, is_release: bool = False
) -> list[str]:
    """Return the incompatible changes of `directory` since the `released` form, one line each.

    `directory` is the directory of the ``.proto`` files and ``buf.yaml``. A release may remove ``reserved`` elements.
    """
    if is_release and not released.exists():
        return []
    config = ("--config", json.dumps(_ALWAYS)) if is_release else ()
    found = _buf("breaking", "--against", str(released), *config, directory=directory)
    if found.returncode not in {0, _INCOMPATIBLE}:
        raise SystemExit(found.stdout + found.stderr)
    return found.stdout.splitlines()


def release(directory: Path = PROTO_DIRECTORY, released: Path = RELEASED) -> None:
    """Write the released form of the current files."""
    built = _buf("build", "--exclude-source-info", "-o", str(released), directory=directory)
    if built.returncode != 0:
        raise SystemExit(built.stdout + built.stderr)


def _buf(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    if not _BUF.exists():
        raise SystemExit(f"{_BUF} is missing: make setup")
    # Node is a program of this environment, which may be missing on the search path.
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(  # noqa: S603 - the arguments are ours
        [_BUF, *arguments], cwd=directory, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
