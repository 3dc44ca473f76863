"""Generated files that are checked in: the command line of their generators.

python proto/<generator>.py            write the files that are not current
python proto/<generator>.py --check    write nothing; exit with 1 and name the files that are not current
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def update(arguments: list[str], *, description: str, generator: str, contents: Mapping[Path, str | None]) -> int:
    """Compare files with their generated contents; report or write the differences. Return the exit status.

    Args:
        arguments: Arguments of the command line.
        description: Purpose of the generator.
        generator: Name of the generator's file.
        contents: Generated contents by path; None for a file that should not exist.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="only report the files that are not current")
    is_check = parser.parse_args(arguments).check

    outdated = sorted(path for path, text in contents.items() if _current(path) != text)
    for path in outdated:
        text = contents[path]
        if is_check:
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            sys.stderr.write(f"not current: {shown} (run python proto/{generator})\n")
        elif text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if is_check and outdated else 0


def _current(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
