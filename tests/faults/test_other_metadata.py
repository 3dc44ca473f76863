"""LOG-13: messages and the catalog that says whose they are belong together: any other catalog is refused.

A new catalog, or an older copy, hands out numbers that are in use: it would give the messages of one topic to another.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.protocol.codes import Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.server_process import ServerDidNotStart, ServerProcess

SECRETS = [b"secret %d" % number for number in range(20)]


def contents(directory: Path) -> dict[str, bytes]:
    """Return all files below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def lose(server: ServerProcess, _other: Path, _older: Path) -> None:
    """Remove the metadata."""
    shutil.rmtree(server.data / "metadata")


def empty(server: ServerProcess, other: Path, older: Path) -> None:
    """Remove the files of the metadata."""
    lose(server, other, older)
    (server.data / "metadata").mkdir()


def exchange(server: ServerProcess, other: Path, older: Path) -> None:
    """Take the metadata of another server."""
    lose(server, other, older)
    shutil.copytree(other, server.data / "metadata")


def restore(server: ServerProcess, other: Path, older: Path) -> None:
    """Take an older copy of the metadata."""
    lose(server, other, older)
    shutil.copytree(older, server.data / "metadata")


@pytest.mark.long(but=2)
@pytest.mark.parametrize("harm", [exchange, lose, empty, restore])
@pytest.mark.parametrize("is_killed", [False, True])
def test_messages_are_not_given_to_another_catalog(
    tmp_path: Path, harm: Callable[[ServerProcess, Path, Path], None], is_killed: bool
) -> None:
    """The start is refused, and nothing of the messages is changed."""
    other = ServerProcess(tmp_path / "other").start()
    other.stop()
    server = ServerProcess(tmp_path / "data").start()
    server.stop()
    older = shutil.copytree(server.data / "metadata", tmp_path / "older")
    server.start()
    try:
        with RawConnection.as_root(server.address) as root:
            root.create_topic("private")
            root.send("private", "t", 0, *SECRETS)
        if is_killed:
            version = server.data / "catalogue_version"
            before = version.read_bytes()
            eventually("the version is recorded", lambda: version.read_bytes() != before)
            server.kill()
        else:
            server.stop()
        good = shutil.copytree(server.data / "metadata", tmp_path / "good")
        before_harm = contents(server.data / "streams")
        harm(server, other.data / "metadata", older)
        with pytest.raises(ServerDidNotStart) as refused:
            server.start()
        assert "metadata" in str(refused.value)
        assert "streams" in str(refused.value)
        assert contents(server.data / "streams") == before_harm
        # The way out: the right metadata.
        shutil.rmtree(server.data / "metadata", ignore_errors=True)
        shutil.copytree(good, server.data / "metadata")
        server.start()
        with RawConnection.as_root(server.address) as root:
            assert root.poll("private", "t", 0, Strategy.FIRST).payloads == SECRETS
        server.stop()
        # The other way out: to do without the messages.
        shutil.rmtree(server.data / "metadata")
        (server.data / "streams").rename(tmp_path / "streams")
        server.start()
    finally:
        if server.is_running:
            server.stop()


def test_directories_of_earlier_releases_are_claimed(tmp_path: Path) -> None:
    """A directory that names no catalog belongs to the one in it."""
    server = ServerProcess(tmp_path / "data").start()
    with RawConnection.as_root(server.address) as root:
        root.create_topic("private")
        root.send("private", "t", 0, *SECRETS)
    server.stop()
    file = server.data / "info.json"
    info = json.loads(file.read_text())
    file.write_text(json.dumps({key: value for key, value in info.items() if key != "catalog"}))
    (server.data / "catalogue_version").unlink()
    server.start()
    with RawConnection.as_root(server.address) as root:
        assert root.poll("private", "t", 0, Strategy.FIRST).payloads == SECRETS
    server.stop()
    assert json.loads(file.read_text()) == info
