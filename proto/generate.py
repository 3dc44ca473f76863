"""Make the Python modules that git does not have: messages, commands, status codes, and a stub of the native module.

    python proto/generate.py

Set-up and every build of the distribution `headrace-core` run it. Nothing is done if the sources, this program, the
compiler and what was made are as they were after the last run. So an interrupted run is done again, as is one whose
result was changed or removed, by a checkout of a commit that has these files for example.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = Path("core/python/headrace_proto")
STAMP: Final = Path(".cache/messages-current")
"""File with the digests of the sources and of what was made of them, written last."""
COMPILERS: Final = ("grpcio-tools", "mypy-protobuf", "protobuf")
STUB: Final = "../headrace_core/_protocol.pyi"
FROM_REGISTRIES: Final = ("commands.py", "errors.py", STUB)


def main(root: Path = ROOT) -> int:
    """Run the command and return its exit status."""
    read = digest(sources(root), root)
    stamp = root / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == f"{read} {digest(made(root), root)}\n":
        return 0
    stamp.unlink(missing_ok=True)
    began = time.monotonic()
    contents = generate(root)
    _write(contents, root)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(f"{read} {digest(made(root), root)}\n", encoding="utf-8")
    sys.stdout.write(f"made {len(contents)} files of headrace_proto in {time.monotonic() - began:.1f} s\n")
    return 0


def sources(root: Path) -> list[Path]:
    """Return the files that decide what is made, the programs among them."""
    return [
        *(root / "proto").glob("headrace/**/*.proto"),
        *(root / "proto").glob("generate*.py"),
        *(root / "proto" / f"{name}.toml" for name in ("commands", "errors", "layouts")),
    ]


def made(root: Path) -> list[Path]:
    """Return the files that a run has made: the packages of messages, and the modules of the registries."""
    package = root / PACKAGE
    return [
        *(path for path in package.glob("*/**/*.py*") if path.suffix in {".py", ".pyi"}),
        *(package / name for name in FROM_REGISTRIES if (package / name).is_file()),
    ]


def digest(paths: list[Path], root: Path) -> str:
    """Return a digest of files and of the versions of the compilers."""
    hasher = hashlib.sha256("".join(_versions()).encode())
    for path in sorted(paths):
        content = path.read_bytes()
        hasher.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
        hasher.update(content)
    return hasher.hexdigest()


def generate(root: Path) -> dict[Path, str]:
    """Return the contents of all files by their paths below the package directory.

    Raises:
        SystemExit: The compiler refused a file; the reason was written to standard error.
        ValueError: A registry is faulty.
    """
    # Not at the top: importing the compiler takes longer than finding out that it is not needed.
    import generate_commands  # noqa: PLC0415
    import generate_errors  # noqa: PLC0415
    import generate_messages  # noqa: PLC0415
    import generate_stub  # noqa: PLC0415

    proto = root / "proto"
    return generate_messages.generate(proto) | {
        Path("commands.py"): generate_commands.module(generate_commands.read_registry(proto / "commands.toml")),
        Path(STUB): generate_stub.module(proto / "layouts.toml", proto / "commands.toml"),
        Path("errors.py"): generate_errors.generate(generate_errors.read_registry(proto / "errors.toml")),
    }


def _write(contents: dict[Path, str], root: Path) -> None:
    wanted = {root / PACKAGE / path: text for path, text in contents.items()}
    for path in set(made(root)) - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not there: another process may import it meanwhile.
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)


def _versions() -> Iterator[str]:
    for name in COMPILERS:
        try:
            yield f"{name} {importlib.metadata.version(name)}\n"
        except importlib.metadata.PackageNotFoundError:
            raise SystemExit(f"proto/generate.py needs {name}: use .venv/bin/python after `make setup`") from None


if __name__ == "__main__":
    sys.exit(main())
