"""Rules for every file of the repository."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {
    *(".git", ".venv", ".cache", ".hypothesis", "target", "__pycache__", "node_modules", "corpus", "artifacts"),
    # What is built from `web`.
    *("dist", "static"),
}
SOURCES = {".rs", ".py", ".pyi", ".ts", ".tsx", ".css", ".toml", ".proto", ".md", ".sh", ""}

LINES_MAX = 600
# Written by a program, or a registry that has as many lines as there are entries: a module of one file has one stub.
LONG = re.compile(
    r"(core/python/headrace_proto/\w+/.*|uv\.lock|Cargo\.lock|proto/(errors|layouts)\.toml|docs/configuration\.md|.*/errors\.py|core/python/headrace_core/_.*\.pyi)"
)
# Pages that are read from the first line to the last.
PAGES = {"CHANGELOG.md": 120, "README.md": 200}
NAMELESS = re.compile(r"(utils?|helpers?|common|managers?|misc)")
MACHINE = re.compile(r"(?<![\w.~])/(work|root|home|Users)/[\w.-]+")


def files() -> Iterator[Path]:
    for directory, names, entries in os.walk(ROOT):
        names[:] = [name for name in names if name not in NOT_OURS and not name.endswith(("_cache", "_data"))]
        if Path(directory) == ROOT:
            # The built site; crates have directories of this name.
            names[:] = [name for name in names if name != "build"]
        for entry in entries:
            # In a linked worktree `.git` is a file.
            if entry in NOT_OURS:
                continue
            path = Path(directory, entry)
            if path.suffix in SOURCES and not entry.endswith(("-current", ".lock.tmp")):
                yield path.relative_to(ROOT)


def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def test_no_file_is_too_long_to_be_read_in_one_go() -> None:
    long = {
        str(path): lines
        for path in files()
        if not LONG.fullmatch(str(path)) and (lines := text(path).count("\n")) > LINES_MAX
    }
    assert not long
    pages = {name: lines for name, most in PAGES.items() if (lines := text(Path(name)).count("\n")) > most}
    assert not pages, "leave out what not every reader needs, or move it to docs"


def test_everything_is_named_after_what_it_is() -> None:
    nameless = [str(path) for path in files() if any(NAMELESS.fullmatch(part.split(".")[0]) for part in path.parts)]
    assert not nameless


def test_nothing_depends_on_one_machine() -> None:
    found = {str(path): match[0] for path in files() if (match := MACHINE.search(text(path)))}
    assert not found


def test_lock_files_name_public_registries_only() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", text(Path("uv.lock"))))
    assert hosts <= {"pypi.org", "files.pythonhosted.org"}
    sources = set(re.findall(r'^source = "(.*)"$', text(Path("core/Cargo.lock")), flags=re.MULTILINE))
    assert sources <= {"registry+https://github.com/rust-lang/crates.io-index"}
    packages = json.loads(text(Path("web/package-lock.json")))["packages"].values()
    resolved = {package["resolved"] for package in packages if "resolved" in package}
    assert resolved == {"client", "console"}, "the lock file names hashes, not hosts: web/.npmrc"
