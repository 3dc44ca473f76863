"""Sending and polling beyond lines: headers, keys, ranges, filters, lost connections."""

from __future__ import annotations

import base64
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import command_line
from tests.command_line.shell import Shell

from headrace.cli.errors import CommandError
from headrace.cli.messages.sending import Outgoing, send_all
from headrace.cli.options import completing
from headrace.cli.servers.resolving import TopicPath
from headrace_core import Client, ConnectionLost, encode_send_messages, encode_user_headers
from headrace_embedded import Server


@pytest.fixture
def sent(headrace: Shell, topic: tuple[str, str]) -> tuple[str, str]:
    """Ten messages, 0 to 9, in partition 0, the even ones with a header; one in partition 1."""
    lines = [{"payload": str(number), "headers": {"even": number % 2 == 0}} for number in range(10)]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    headrace("send", *topic, "--json-lines", "-p", "0", stdin=stdin)
    headrace("send", *topic, "x", "-p", "1", "--header", "a=b", "-H", "c=d=e")
    return topic


@pytest.mark.parametrize(
    ("options", "payloads"),
    [
        (("--from", "3", "--until", "6", "-p", "0"), "345"),
        (("--from", "first", "--until", "2"), "01x"),
        (("--from", "first", "--count", "0", "-p", "0"), "0123456789"),
        (("--from", "first", "-n", "3", "-p", "0,1"), "012x"),
        (("--from", "first", "-n", "3", "-p", "1"), "x"),
        (("--from", "first", "--grep", "^[2-4]$"), "234"),
        (("--from", "first", "--grep", "[0-9]", "-n", "2"), "01"),
        (("--from", "first", "--header", "even=true", "-n", "3"), "024"),
        (("--from", "first", "--header", "a=b", "--header", "c=d=e"), "x"),
        (("--from", "first", "--header", "a=c"), ""),
        (("--from", "last", "-n", "2", "-p", "0"), "89"),
        (("--from", "2000-01-01", "--until", "2001-01-01"), ""),
        (("--from", "2000-01-01", "--until", "2100-01-01", "-p", "0"), "0123456789"),
    ],
)
def test_ranges_and_filters(headrace: Shell, sent: tuple[str, str], options: tuple[str, ...], payloads: str) -> None:
    assert headrace("poll", *sent, *options, "-o", "raw").split() == list(payloads)


def test_a_commit_is_behind_what_was_printed(headrace: Shell, sent: tuple[str, str]) -> None:
    """A range and a filter end before the messages that were received with them."""
    command = ("poll", *sent, "-p", "0", "--commit", "-o", "raw", "--consumer", "me")
    assert headrace(*command, "--until", "3").split() == list("012")
    assert headrace(*command, "--grep", "[57]", "-n", "1").split() == ["5"]
    assert headrace(*command, "-n", "2").split() == ["6", "7"]


def test_headers_are_readable(headrace: Shell, sent: tuple[str, str]) -> None:
    assert headrace("poll", *sent, "-p", "1", "--from", "first").endswith("  x  [a=b,c=d=e]\n")
    shown = json.loads(headrace("poll", *sent, "-p", "0", "--from", "first", "-n", "1", "--json"))
    assert (shown["payload"], shown["headers"]) == ("0", {"even": True})


def test_a_format(headrace: Shell, sent: tuple[str, str]) -> None:
    shown = headrace("poll", *sent, "-p", "1", "--from", "first", "--format", r"%p %o %v %h{a} %h %s%%\t|%h{no}|\n")
    assert shown == "1 0 x b a=b,c=d=e 1%\t||\n"
    shown = headrace("poll", *sent, "-p", "1", "--from", "first", "--format", "%t %T %i")
    assert len(shown.split()) == 4


def test_what_was_polled_can_be_sent(headrace: Shell, topic: tuple[str, str]) -> None:
    """JSON lines carry bytes, headers of every kind and the partition."""
    headrace("topic", "create", topic[0], "copy", "-p", "2")
    lines = b'{"payload_base64": "/wA=", "partition": 1, "headers": {"f": 1.5, "n": -3, "t": "x", "b": false}}\n'
    headrace("send", *topic, "--json-lines", stdin=lines)
    polled = headrace("poll", *topic, "--from", "first", "--json")
    headrace("send", topic[0], "copy", "--json-lines", stdin=polled.encode())
    copied = json.loads(headrace("poll", topic[0], "copy", "--from", "first", "--json"))
    assert copied["partition"] == 1
    assert copied["payload_base64"] == "/wA="
    assert copied["headers"] == {"f": 1.5, "n": -3, "t": "x", "b": False}


def test_headers_that_cannot_be_read_are_sent_on(server: Server, headrace: Shell, topic: tuple[str, str]) -> None:
    """Their bytes stay the same; the key before them is not added a second time."""
    stored = encode_user_headers([(("string", b"headrace.key"), ("raw", b"k"))]) + b"\xffsealed"
    client = Client.connect(server.address)
    client.login(server.username, server.password)
    client.request(*encode_send_messages([(0, b"x", stored)], stream=topic[0], topic=topic[1], partition=1))
    client.close()
    headrace("topic", "create", topic[0], "copy", "-p", "2")
    polled = headrace("poll", *topic, "--from", "first", "--json").encode()
    headrace("send", topic[0], "copy", "--json-lines", stdin=polled)
    copied = json.loads(headrace("poll", topic[0], "copy", "--from", "first", "--json"))
    assert (copied["key"], base64.b64decode(copied["user_headers"])) == ("k", stored)
    refused = headrace.run("send", topic[0], "copy", "--json-lines", "-H", "a=b", stdin=polled)
    assert refused.stderr.decode() == (
        "error: line 1: user_headers are sent as they are, so that --header cannot add to them\n"
    )


def test_keys_of_lines_choose_partitions(headrace: Shell, topic: tuple[str, str]) -> None:
    lines = "".join(json.dumps({"payload": f"{key}{n}", "key": key}) + "\n" for n in range(5) for key in "abcdef")
    headrace("send", *topic, "--json-lines", stdin=lines.encode())
    polled = [
        json.loads(line) for line in headrace("poll", *topic, "--from", "first", "-n", "0", "--json").splitlines()
    ]
    by_key: dict[str, list[tuple[int, str]]] = {}
    for message in polled:
        by_key.setdefault(message["payload"][0], []).append((message["partition"], message["payload"]))
    assert {key: [payload for _, payload in found] for key, found in by_key.items()} == {
        key: [f"{key}{n}" for n in range(5)] for key in "abcdef"
    }
    assert all(len({partition for partition, _ in found}) == 1 for found in by_key.values())


class Refusing:
    """A client whose connection is lost at a request."""

    def __init__(self, good: int, failure: BaseException) -> None:
        self.left = good
        self.failure = failure

    def send(self, *_: object, **__: object) -> None:
        if not self.left:
            raise self.failure
        self.left -= 1

    def request(self, *_: object) -> bytes:
        self.send()
        return b""


def lost(messages: Iterator[Outgoing] | list[Outgoing], failure: BaseException) -> CommandError:
    path = TopicPath("s", "t", None, "s/t")
    with pytest.raises(CommandError) as raised:
        send_all(
            Refusing(2, failure),  # type: ignore[arg-type]  # all that is used of a client
            path,
            messages,
            messages_max=1000,
            on_acknowledged=lambda *_: None,
        )
    return raised.value


def test_an_interrupted_send_says_what_is_uncertain() -> None:
    messages = [Outgoing(line, b"x") for line in range(1, 5001)]
    connection = lost(messages, ConnectionLost("the connection is closed"))
    assert str(connection) == (
        "the connection was lost (the connection is closed): stopped after 2,000 acknowledged messages; line 2,001 and "
        "up to 999 more are uncertain"
    )
    assert connection.status == 1
    interrupt = lost(messages, KeyboardInterrupt())
    assert str(interrupt).startswith("interrupted: stopped after 2,000 acknowledged messages")
    assert interrupt.status == 130
    assert "line 2,001 is uncertain" in str(lost(messages[:2001], KeyboardInterrupt()))


def test_a_send_that_is_interrupted_while_it_waits_says_what_is_acknowledged() -> None:
    def source() -> Iterator[Outgoing]:
        for line in range(1, 2501):
            yield Outgoing(line, b"x")
        raise KeyboardInterrupt

    interrupt = lost(source(), AssertionError())
    assert str(interrupt) == "interrupted: stopped after 2,000 acknowledged messages"
    assert interrupt.status == 130


def test_keys_share_batches_and_lines_are_still_named() -> None:
    messages = [Outgoing(line, b"x", encode_user_headers([]), key=b"%d" % (line % 2)) for line in range(1, 5001)]
    failure = lost(messages, ConnectionLost("gone"))
    assert str(failure).endswith(
        "stopped after 1,000 acknowledged messages; up to 500 of the lines 1,001 to 1,999 are uncertain"
    )


def test_a_batch_that_fails_hands_over_the_lines_that_were_acknowledged() -> None:
    messages = [Outgoing(line, b"x", encode_user_headers([]), key=b"%d" % (line % 3)) for line in range(1, 16)]
    stopped: list[tuple[int, list[int]]] = []
    with pytest.raises(CommandError):
        send_all(
            Refusing(4, KeyboardInterrupt()),  # type: ignore[arg-type]  # all that is used of a client
            TopicPath("s", "t", None, "s/t"),
            messages,
            messages_max=10,
            on_acknowledged=lambda *_: None,
            on_stopped=lambda *found: stopped.append(found),
        )
    assert stopped == [(12, [11, 14])]


def test_a_message_that_cannot_be_read_stops_after_those_before() -> None:
    def source() -> Iterator[Outgoing]:
        for line in range(1, 1501):
            yield Outgoing(line, b"x")
        raise CommandError("line 1,501 is not JSON")

    assert str(lost(source(), KeyboardInterrupt())) == (
        "line 1,501 is not JSON\nstopped after 1,000 acknowledged messages"
    )


def test_followers_survive_a_restart(driver: dict[str, str], tmp_path: Path) -> None:
    """Followers, alone and as a member of a group, continue where they were, each message once."""
    with Server(tmp_path / "data", driver) as server:
        headrace = Shell(server)
        port = server.address.rpartition(":")[2]
        headrace("stream", "create", "s")
        headrace("topic", "create", "s", "t", "-p", "2")
        headrace("group", "create", "s", "t", "g")
        headrace("send", "s", "t", "a", "-p", "0")
        followers = [
            headrace.start("poll", "s", "t", "--follow", "-o", "raw", *options)
            for options in (("--from", "first"), ("-p", "0", "--from", "first"), ("--group", "g"))
        ]
        for process in followers:
            assert process.stdout is not None
            assert process.stdout.readline() == b"a\n"
    address = f"127.0.0.1:{port}"
    with Server(tmp_path / "data", driver | {"tcp.address": address}):
        headrace("send", "s", "t", "b", "-p", "0")
        for process in followers:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"b\n"
            assert b"reconnecting, Ctrl-C ends this" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60)[0] == b""
            assert process.returncode == 130


def test_topics_and_partitions_change(headrace: Shell, topic: tuple[str, str]) -> None:
    stream = topic[0]
    headrace("send", *topic, "a", "b", "-p", "1")
    headrace("topic", "update", *topic, "--name", "renamed", "--max-size", "2 GiB")
    found = json.loads(headrace("topic", "show", stream, "renamed", "--json"))
    assert (found["max_size_bytes"], found["message_expiry_micros"]) == (2 << 30, None)
    headrace("topic", "update", stream, "renamed", "--message-expiry", "1 day")
    found = json.loads(headrace("topic", "show", stream, "renamed", "--json"))
    assert (found["max_size_bytes"], found["message_expiry_micros"]) == (2 << 30, 86_400_000_000)
    assert [partition["last_offset"] for partition in found["partitions"]] == [None, 1]
    headrace("partition", "add", stream, "renamed", "2")
    removed = headrace.run("partition", "remove", stream, "renamed", "3", "--yes").stderr.decode()
    assert removed == f"removed the last 3 partitions of {stream}/renamed with 2 messages\n"
    headrace("send", stream, "renamed", "c")
    assert headrace.run("topic", "purge", stream, "renamed", "--yes").stderr.decode() == (
        f"deleted 1 message of topic {stream}/renamed\n"
    )
    assert headrace("poll", stream, "renamed", "--from", "first") == ""
    headrace("send", stream, "renamed", "d")
    headrace("stream", "purge", stream, "--yes")
    assert headrace("poll", stream, "renamed", "--from", "first") == ""
    headrace("stream", "rename", stream, "other")
    assert json.loads(headrace("stream", "show", "other", "--json"))["messages_count"] == 0
    headrace("stream", "rename", "other", stream)


@pytest.mark.parametrize(
    ("to", "offsets", "following"),
    [("first", [None, None], "a"), ("last", [2, None], ""), ("1", [0, None], "b"), ("2100-01-01", [2, None], "")],
)
def test_a_group_reads_on_elsewhere(
    headrace: Shell, topic: tuple[str, str], to: str, offsets: list[int | None], following: str
) -> None:
    headrace("send", *topic, "a", "b", "c", "-p", "0")
    headrace("group", "create", *topic, "g")
    read = ("poll", *topic, "--group", "g", "-o", "raw")
    assert headrace(*read, "-n", "2").split() == ["a", "b"]
    moves = json.loads(headrace("group", "reset", *topic, "g", "--to", to, "--dry-run", "--json"))
    assert [move["old_offset"] for move in moves] == [1, None]
    assert [move["new_offset"] for move in moves] == offsets
    refused = headrace.run("group", "reset", *topic, "g", "--to", to)
    assert b"without a terminal to ask on" in refused.stderr
    headrace("group", "reset", *topic, "g", "--to", to, "--yes")
    assert headrace(*read, "-n", "1").split() == list(following)


def test_a_group_with_members_is_not_moved(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("group", "create", *topic, "g")
    headrace("send", *topic, "a", "-p", "0")
    with headrace.start("poll", *topic, "--group", "g", "--follow", "-o", "raw") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"a\n"
        refused = headrace.run("group", "reset", *topic, "g", "--to", "first", "--yes")
        assert refused.stderr.decode() == (
            "error: group 'g' has 1 member, which would go on where they are: stop them first\n"
        )
        process.terminate()


def test_names_are_completed_from_the_server(
    headrace: Shell, topic: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    headrace("group", "create", *topic, "billing")

    def completed(line: str, **variables: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_HEADRACE_COMPLETE": "bash_complete"}
        result = command_line.run(environment=headrace.environment | headrace.login | words | variables)
        return [item.removeprefix("plain,") for item in result.stdout.decode().split()]

    stream = topic[0]
    with monkeypatch.context() as patient:
        # A server that is slow, as on a busy machine, would be given up.
        patient.setattr(completing, "TIMEOUT_SECONDS", 60)
        assert stream in completed("headrace topic list ")
        assert completed(f"headrace poll {stream} ") == ["t"]
        assert completed(f"headrace group show {stream} t b") == ["billing"]
        assert completed(f"headrace poll {stream} t --group ") == ["billing"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        assert completed("headrace topic list ", HEADRACE_SERVER=f"127.0.0.1:{silent.getsockname()[1]}") == []
        assert time.monotonic() - began < 60


def test_the_client_sends_encoded_commands(server: Server) -> None:
    client = Client.connect(server.address)
    with pytest.raises(ValueError, match="code 1234567"):
        client.request(1234567, b"")
    client.close()


def test_a_key_is_stored_and_shown(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("send", *topic, "one", "--key", "customer-7", "-H", "a=b")
    headrace("send", *topic, "--json-lines", stdin=b'{"payload": "two", "key_base64": "/w=="}\n')
    lines = headrace("poll", *topic, "-p", "0,1", "--from", "first", "--json").splitlines()
    found = {line["payload"]: line for line in map(json.loads, lines)}
    assert (found["one"]["key"], found["one"]["headers"]) == ("customer-7", {"a": "b"})
    assert (found["two"]["key_base64"], "headers" in found["two"]) == ("/w==", False)
    partition = str(found["one"]["partition"])
    shown = headrace("poll", *topic, "-p", partition, "--from", "first", "--format", r"%k %v %h\n")
    assert "customer-7 one a=b\n" in shown
    assert "  one  key customer-7  [a=b]" in headrace("poll", *topic, "-p", partition, "--from", "first")


def test_a_key_of_the_command_line_is_bytes(headrace: Shell, topic: tuple[str, str]) -> None:
    headrace("send", *topic, "x", "--key", "a\udcff")
    found = json.loads(headrace("poll", *topic, "--from", "first", "--json"))
    assert base64.b64decode(found["key_base64"]) == b"a\xff"
