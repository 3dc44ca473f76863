"""CON-45: `headrace connect redrive`: dead letters on their way back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from tests.command_line.schemas import validate
from tests.command_line.shell import Shell

import headrace as sdk
from headrace.cli.errors import CommandError
from headrace.cli.messages import redriving
from headrace.cli.messages.redriving import Redrive
from headrace.cli.servers.target import Target
from headrace_embedded import Server

COUNT = 20


@pytest.fixture(autouse=True)
def _long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long: on a busy machine, the server notices late that the connection of an earlier run has ended."""
    monkeypatch.setattr(redriving, "_LEAVING_SECONDS", 120)


@pytest.fixture
def client(server: Server) -> Iterator[sdk.Client]:
    with sdk.connect(f"headrace://{server.username}:{server.password}@{server.address}") as client:
        yield client


@pytest.fixture
def letters(client: sdk.Client, topic: tuple[str, str]) -> tuple[str, str]:
    """A dead-letter topic: every other letter is of a reason of its own."""
    stream, name = topic
    with client.producer(stream, name) as producer:
        producer.send_many([b"%d" % number for number in range(COUNT)], partition=0, headers={"trace": "x"})
    with client.consumer(stream, name, group="g", start="first") as consumer:
        for message in consumer:
            consumer.dead_letter(message, "too late" if message.offset % 2 else "no JSON")
            if message.offset == COUNT - 1:
                break
    return stream, f"{name}-dead"


def payloads(client: sdk.Client, stream: str, topic: str, start: int = 0) -> list[int]:
    """Payloads after an offset, of both partitions."""
    found = [
        message
        for partition in range(client.topic(stream, topic).partitions_count)
        for message in client.read(stream, topic, partition=partition, count=1000)
    ]
    return sorted(int(message.payload) for message in found[start:])


def stored(client: sdk.Client, stream: str, topic: str, expected: list[int]) -> None:
    """Wait for messages: those of a transaction can be read soon after its commit."""
    deadline = time.monotonic() + 30
    while (found := payloads(client, stream, topic)) != expected and len(found) <= len(expected):
        assert time.monotonic() < deadline, found
    assert found == expected


def test_letters_go_back_once(headrace: Shell, client: sdk.Client, letters: tuple[str, str]) -> None:
    stream, dead = letters
    name = dead.removesuffix("-dead")
    shown = json.loads(headrace("connect", "redrive", *letters, "--dry-run", "--json"))
    validate("connect-redrive", shown)
    assert {one["reason"]: one["count"] for one in shown} == {"no JSON": COUNT // 2, "too late": COUNT // 2}
    assert {(one["stream"], one["topic"]) for one in shown} == {(stream, name)}
    assert payloads(client, stream, name) == list(range(COUNT))
    refused = headrace.run("connect", "redrive", *letters)
    assert (refused.returncode, b"add --yes" in refused.stderr) == (1, True)
    assert "no JSON" in headrace("connect", "redrive", *letters, "--yes")
    stored(client, stream, name, sorted([*range(COUNT)] * 2))
    again = headrace("connect", "redrive", *letters, "--yes")
    assert again == "there are no letters that were not redriven\n"
    stored(client, stream, name, sorted([*range(COUNT)] * 2))
    redriven = [one for one in client.read(stream, name, partition=0, count=1000) if one.offset >= COUNT]
    redriven += client.read(stream, name, partition=1, count=1000)
    assert all(message.headers == {"trace": "x"} for message in redriven)


def test_letters_that_stay_are_kept(headrace: Shell, client: sdk.Client, letters: tuple[str, str]) -> None:
    """One reason goes elsewhere; the others are appended again, with their reason, and go back later."""
    stream, dead = letters
    client.create_topic(stream, "late", partitions=1)
    headrace("connect", "redrive", *letters, "--reason", "late", "--to", stream, "late", "--count", "3", "--yes")
    stored(client, stream, "late", [1, 3, 5])
    headrace("connect", "redrive", *letters, "--reason", "late", "--to", stream, "late", "--yes")
    stored(client, stream, "late", list(range(1, COUNT, 2)))
    stored(client, stream, dead, sorted([*range(COUNT), 0, 2, 4, *range(6, COUNT, 2)]))
    (left,) = json.loads(headrace("connect", "redrive", *letters, "--dry-run", "--json"))
    assert (left["reason"], left["count"]) == ("no JSON", COUNT // 2)
    headrace("connect", "redrive", *letters, "--yes")
    stored(client, stream, dead.removesuffix("-dead"), sorted([*range(COUNT), *range(0, COUNT, 2)]))


def test_a_redrive_that_was_killed_goes_on(
    server: Server, client: sdk.Client, letters: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without transactions, killed after each batch is sent: every letter arrives, with one id."""
    stream, dead = letters
    monkeypatch.setattr(redriving, "has_transactions", lambda _client: False)
    monkeypatch.setattr(redriving, "_CHUNK_MESSAGES", 7)
    target = Target(server.address, server.username, server.password)
    work = Redrive(target, *letters, to=None, reason=None, count=None)
    original = redriving.Redrive._send
    calls = iter(range(100))

    def killed(self, client, path, messages, partition):
        original(self, client, path, messages, partition)
        if next(calls) % 2 == 0:
            raise KeyboardInterrupt
        return len(messages)

    monkeypatch.setattr(redriving.Redrive, "_send", killed)
    runs = 0
    while (plan := work.plan()).sent:
        runs += 1
        try:
            work.run(plan, lambda _count: None)
        except KeyboardInterrupt:
            continue
    assert runs == 4
    name = dead.removesuffix("-dead")
    found = [
        message
        for partition in range(2)
        for message in client.read(stream, name, partition=partition, count=1000)
        if partition or message.offset >= COUNT
    ]
    assert {int(message.payload) for message in found} == set(range(COUNT))
    assert len({message.id for message in found}) == COUNT


def test_letters_that_cannot_be_sent(headrace: Shell, client: sdk.Client, topic: tuple[str, str]) -> None:
    stream, name = topic
    with client.producer(stream, name) as producer:
        producer.send_many([b"1"], partition=0)
    (shown,) = json.loads(headrace("connect", "redrive", stream, name, "--json"))
    assert shown == {"reason": "its headers do not say where it came from", "stream": None, "topic": None, "count": 1}
    assert "stays" in headrace("connect", "redrive", stream, name)
    itself = headrace.run("connect", "redrive", stream, name, "--to", stream, name, "--yes")
    assert "is the dead-letter topic itself: name another topic with --to" in itself.stderr.decode()
    missing = headrace.run("connect", "redrive", stream, name, "--to", stream, "missing", "--yes")
    assert (missing.returncode, "missing" in missing.stderr.decode()) == (1, True)
    assert payloads(client, stream, name) == [1]


def test_letters_without_the_headers_of_their_messages_stay(
    headrace: Shell, client: sdk.Client, topic: tuple[str, str]
) -> None:
    """Such letters go only where `--to` says: their readers may need what is missing."""
    stream, name = topic
    with client.producer(stream, name) as producer:
        producer.send_many([b"1"], partition=0, headers={f"h{number:03}": "x" * 250 for number in range(378)})
    with client.consumer(stream, name, group="g", start="first") as consumer:
        for message in consumer:
            consumer.dead_letter(message, "y" * 255)
            break
    (shown,) = json.loads(headrace("connect", "redrive", stream, f"{name}-dead", "--json"))
    reason = "its headers are not in the letter: too large"
    assert shown == {"reason": reason, "stream": None, "topic": None, "count": 1}
    client.create_topic(stream, "elsewhere", partitions=1)
    headrace("connect", "redrive", stream, f"{name}-dead", "--to", stream, "elsewhere", "--yes")
    stored(client, stream, "elsewhere", [1])


def test_two_redrives_at_a_time_are_refused(
    server: Server, client: sdk.Client, letters: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, dead = letters
    # The other one does not leave.
    monkeypatch.setattr(redriving, "_LEAVING_SECONDS", 0.1)
    target = Target(server.address, server.username, server.password)
    work = Redrive(target, *letters, to=None, reason=None, count=None)
    plan = work.plan()
    with client.consumer(stream, dead, group=redriving.GROUP) as consumer:
        assert consumer.poll(timeout=60) is not None
        with pytest.raises(CommandError, match="another redrive of"):
            work.run(plan, lambda _count: None)
