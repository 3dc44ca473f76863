"""The wheel of the native module is found again for the same sources, and only for these (USE-1)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SETUP))

import native  # noqa: E402 - it runs before anything is installed, so it is in no package

LOCKED = '[[package]]\nname = "grpcio-tools"\nversion = "1.85.1"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Sources of one crate, with what does not belong to the module."""
    for name, text in {
        "core/Cargo.toml": "[workspace]",
        "core/Cargo.lock": "locked",
        "core/crates/log/src/lib.rs": "pub fn append() {}",
        "core/crates/log/src/tests.rs": "a test",
        "core/crates/log/tests/it.rs": "a test",
        "core/crates/log/benches/append.rs": "a benchmark",
        "core/crates/sim/src/lib.rs": "the simulator",
        "core/python/headrace_core/__init__.pyi": "version: str",
        "core/python/headrace_proto/__init__.py": "the package",
        "core/python/headrace_proto/errors.py": "generated",
        "core/python/headrace_proto/log/v1/__init__.py": "generated",
        "core/python/headrace_proto/log/v1/log_pb2.py": "generated",
        "core/target/debug/made.rs": "made",
        "proto/errors.toml": "[[error]]",
        "proto/buf.toml": "settings of a tool",
        "proto/generate.py": "the generator",
        "proto/headrace/log.proto": 'syntax = "proto3";',
        "uv.lock": LOCKED,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_sources_are_what_is_compiled(checkout: Path) -> None:
    assert [str(path) for path in native.sources(checkout)] == [
        "core/Cargo.lock",
        "core/Cargo.toml",
        "core/crates/log/src/lib.rs",
        "core/python/headrace_core/__init__.pyi",
        "core/python/headrace_proto/__init__.py",
        "proto/errors.toml",
        "proto/generate.py",
        "proto/headrace/log.proto",
    ]


def test_the_digest_follows_contents_and_nothing_else(checkout: Path) -> None:
    before = native.digest("dev", checkout)
    source = checkout / "core/crates/log/src/lib.rs"
    os.utime(source, (1, 1))
    (checkout / "core/crates/log/src/tests.rs").write_text("another test")
    (checkout / "core/python/headrace_proto/errors.py").unlink()
    assert native.digest("dev", checkout) == before
    assert native.digest("release", checkout) != before
    (checkout / "uv.lock").write_text(LOCKED.replace("1.85.1", "1.85.2"))
    assert native.digest("dev", checkout) != before, "another compiler of the messages"
    (checkout / "uv.lock").write_text(LOCKED)
    source.write_text("pub fn append() { }")
    assert native.digest("dev", checkout) != before
    source.rename(source.with_name("append.rs"))
    renamed = native.digest("dev", checkout)
    source.with_name("append.rs").rename(source)
    assert native.digest("dev", checkout) != renamed


def test_this_checkout_runs_a_wheel_of_its_sources() -> None:
    wheels = native.directory("dev")
    assert native.is_built(wheels), "make setup"
    assert native.main(["wheel"]) == 0
    assert native.main(["build"]) == 0, "a wheel that is there is not built again"


def test_a_wheel_that_is_not_built_is_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(native, "WHEELS", tmp_path)
    assert native.main(["wheel"]) == 1
    # A build that was interrupted has left its directory.
    (tmp_path / f"{native.directory('dev').name}.building").mkdir()
    assert native.main(["wheel"]) == 1
    assert capsys.readouterr().out == ""


def test_few_old_wheels_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "WHEELS", tmp_path)
    for age in range(5):
        for profile in native.PROFILES:
            directory = tmp_path / f"{profile}-{age}"
            directory.mkdir()
            os.utime(directory, (1000 - age, 1000 - age))
    (tmp_path / "headrace_core-of-an-earlier-form.whl").touch()
    native._remove_old("dev")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "dev-0",
        "dev-1",
        "dev-2",
        *(f"release-{age}" for age in range(5)),
    ]
