"""USE-1: the whole server inside a program."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace_core import Client, ConnectionLost
from headrace_embedded import DataDirectoryInUse, EmbeddedError, Server
from headrace_proto.catalog.v1 import DURABILITY_FSYNC, DURABILITY_MEMORY, DURABILITY_UNSPECIFIED
from headrace_settings import SettingsError


def root(server: Server) -> Client:
    client = Client.connect(server.address)
    client.login(server.username, server.password)
    return client


def test_what_was_sent_is_there_after_a_restart(tmp_path: Path, driver: dict[str, str]) -> None:
    payloads = [f"message {number}".encode() for number in range(100)]
    with Server(tmp_path / "data", driver) as server:
        client = root(server)
        client.create_stream("s")
        client.create_topic("s", "t", 3)
        client.send("s", "t", payloads, partition=1)
        client.close()
    with Server(tmp_path / "data", driver) as server:
        polled = root(server).poll("s", "t", 1, strategy="first", count=1000)
        assert [message.payload for message in polled.messages] == payloads
        assert [message.offset for message in polled.messages] == list(range(100))


def test_two_at_once_and_nothing_is_left_behind() -> None:
    with Server() as one, Server() as other:
        assert one.address != other.address
        root(one).create_stream("only here")
        assert root(other).streams() == []
        directory, address = one.running.data_path, one.address
    assert not directory.exists()
    with pytest.raises(ConnectionLost):
        Client.connect(address, 1.0)
    with pytest.raises(EmbeddedError, match="not running"):
        _ = one.address


def test_a_directory_in_use_is_refused_without_harm(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        with pytest.raises(DataDirectoryInUse), Server(tmp_path):
            pass
        root(server).ping()


def test_settings_by_name() -> None:
    with Server(settings={"durability": "fsync", "root.username": "admin", "root.password": "secret"}) as server:
        assert server.running.config.durability == "fsync"
        assert root(server).streams() == []


def test_topics_can_differ_in_their_durability(tmp_path: Path, driver: dict[str, str]) -> None:
    """LOG-4: the record has the durability of the first rule for its name, and keeps it."""
    rules = {"system.topic.durability": "[shop/draft-*=memory, shop/*=fsync]"}
    with Server(tmp_path, driver | rules) as server:
        client = root(server)
        for stream, topic in (("shop", "orders"), ("shop", "draft-1"), ("logs", "orders")):
            if not any(known.name == stream for known in client.streams()):
                client.create_stream(stream)
            client.create_topic(stream, topic, 1)
            client.send(stream, topic, [b"acknowledged"], partition=0)
            assert len(client.poll(stream, topic, 0, strategy="first").messages) == 1
    with Server(tmp_path, driver) as server:
        assert root(server).poll("shop", "orders", 0, strategy="first").messages[0].payload == b"acknowledged"
        topics = server.running._replica.state.catalog().topics
    assert {(topic.stream_id, topic.name): topic.durability for topic in topics} == {
        (0, "orders"): DURABILITY_FSYNC,
        (0, "draft-1"): DURABILITY_MEMORY,
        (1, "orders"): DURABILITY_UNSPECIFIED,
    }


def test_wrong_settings_are_raised_where_the_server_is_started() -> None:
    with pytest.raises(SettingsError, match="durability"), Server(settings={"durability": "often"}):
        pass


@pytest.mark.parametrize("has_started", [False, True])
def test_an_interrupted_start_leaves_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_started: bool
) -> None:
    server = Server(tmp_path)
    wait = server._ready.wait

    def interrupted() -> None:
        if has_started:
            wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(server._ready, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt), server:
        pass
    assert not server._thread.is_alive()
    with Server(tmp_path) as later:
        root(later).ping()


_LEFT_OPEN = """
import sys
from headrace_embedded import Server

server = Server(sys.argv[1]).__enter__()
raise ValueError("the program ends without closing the server")
"""


def test_a_program_that_fails_does_not_wait_for_its_server(tmp_path: Path, driver: dict[str, str]) -> None:
    command = [sys.executable, "-c", _LEFT_OPEN, str(tmp_path / "data")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.strip().endswith("ValueError: the program ends without closing the server")
    with Server(tmp_path / "data", driver) as server:
        root(server).create_stream("s")
