"""LOG-13: the data directory, and access to it."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from headrace_embedded.data_directory import FORMAT_VERSION, opened, write_current_config
from headrace_embedded.errors import DataDirectoryInUse, ForeignDataDirectory


def test_a_new_directory_says_what_it_is(tmp_path: Path) -> None:
    """LOG-13: info.json."""
    with opened(str(tmp_path / "data")) as path:
        info = json.loads((path / "info.json").read_text())
        assert info["product"] == "headrace"
        assert info["format_version"] == FORMAT_VERSION
        assert info["created_at"].startswith("20")
        write_current_config(path, "a = 1\n")
        assert (path / "runtime/current_config.toml").read_text() == "a = 1\n"
    with opened(str(tmp_path / "data")) as path:
        assert json.loads((path / "info.json").read_text()) == info
        assert not (path / "runtime/current_config.toml").exists()


def test_one_server_at_a_time(tmp_path: Path) -> None:
    with (
        opened(str(tmp_path)),
        pytest.raises(DataDirectoryInUse, match=rf"in use by another server \(process {os.getpid()}\)"),
        opened(str(tmp_path)),
    ):
        pass
    with opened(str(tmp_path)):
        pass


def _hold_and_die(path: str, held: "multiprocessing.synchronize.Event") -> None:
    with opened(path):
        held.set()
        os.kill(os.getpid(), 9)


def test_a_killed_server_leaves_no_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=_hold_and_die, args=(str(tmp_path), held))
    process.start()
    assert held.wait(30)
    process.join()
    with opened(str(tmp_path)):
        pass


@pytest.mark.parametrize("fresh", [False, True])
def test_a_first_start_that_was_killed_is_repeated(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "headrace.lock").touch()
    (tmp_path / "info.json.unfinished").write_text('{"prod')
    with opened(str(tmp_path), fresh=fresh) as path:
        assert json.loads((path / "info.json").read_text())["format_version"] == FORMAT_VERSION
        assert not (path / "info.json.unfinished").exists()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "info.json").write_text('{"product": "headrace", "version": "9.9.9", "format_version": 99}')
    with pytest.raises(ForeignDataDirectory, match=r"format 99, written by release 9\.9\.9"), opened(str(tmp_path)):
        pass


def test_the_format_before_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Directory as written by a release with a journal of its own in `state.messages`."""
    info = '{"product": "headrace", "version": "0.1.0", "format_version": 1, "created_at": "2026-11-20T12:00:00+00:00"}'
    (tmp_path / "info.json").write_text(info)
    (tmp_path / "state.messages").write_bytes(b"HEADRJNL")
    with pytest.raises(ForeignDataDirectory, match=r"format 1, written by release 0\.1\.0"), opened(str(tmp_path)):
        pass
    assert (tmp_path / "state.messages").read_bytes() == b"HEADRJNL"
    assert (tmp_path / "info.json").read_text() == info
    with opened(str(tmp_path), fresh=True) as path:
        assert json.loads((path / "info.json").read_text())["format_version"] == FORMAT_VERSION
        assert not (path / "state.messages").exists()


@pytest.mark.parametrize("info", ["", "{", "[]", '{"product": "headrace"}', '{"format_version": "x", "product": ""}'])
def test_an_unreadable_info_is_refused(tmp_path: Path, info: str) -> None:
    (tmp_path / "info.json").write_text(info)
    with pytest.raises(ForeignDataDirectory, match="cannot be parsed"), opened(str(tmp_path), fresh=True):
        pass


@pytest.mark.parametrize("fresh", [False, True])
def test_a_directory_that_is_not_ours_is_left_alone(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "thesis.txt").write_text("do not delete")
    with pytest.raises(ForeignDataDirectory, match="not a Headrace data directory"), opened(str(tmp_path), fresh=fresh):
        pass
    (tmp_path / "info.json").write_text('{"product": "other", "format_version": 1}')
    with pytest.raises(ForeignDataDirectory, match="belongs to 'other'"), opened(str(tmp_path), fresh=fresh):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "info.json"}, "a lock was left"
    assert (tmp_path / "thesis.txt").read_text() == "do not delete"


def test_fresh_empties_it(tmp_path: Path) -> None:
    with opened(str(tmp_path)) as path:
        (path / "streams/0").mkdir(parents=True)
        (path / "metadata").mkdir()
        created = json.loads((path / "info.json").read_text())
    with opened(str(tmp_path), fresh=True) as path:
        assert sorted(entry.name for entry in path.iterdir()) == ["headrace.lock", "info.json", "runtime"]
        assert json.loads((path / "info.json").read_text())["product"] == created["product"]
