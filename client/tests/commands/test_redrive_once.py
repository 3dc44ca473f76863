"""CON-82: a redrive sends each letter once, whatever is killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.command_line.shell import Shell

import headrace as sdk
from headrace.cli.errors import CommandError
from headrace.cli.messages import redriving
from headrace.cli.messages.redrive_ledger import Intent, Ledger, generations
from headrace.cli.messages.redriving import Redrive
from headrace.cli.servers.resolving import find_topic
from headrace.cli.servers.target import Target
from headrace_embedded import Server

COUNT = 20
PROGRAM = Path(__file__).with_name("killed_redrive.py")
REASONS = ("no JSON", "too late", "elsewhere")


@pytest.fixture(autouse=True)
def _long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long: a busy machine notices a killed process late. No test here waits for a member that stays."""
    monkeypatch.setattr(redriving, "_LEAVING_SECONDS", 120)


@pytest.fixture
def client(server: Server) -> Iterator[sdk.Client]:
    with sdk.connect(f"headrace://{server.username}:{server.password}@{server.address}") as client:
        yield client


@pytest.fixture
def letters(client: sdk.Client, topic: tuple[str, str]) -> Iterator[tuple[str, str, str]]:
    """A dead-letter topic, and another stream, which each third letter came from."""
    stream, name = topic
    other = f"{stream[:190]}-other"
    client.create_stream(other)
    client.create_topic(other, name, partitions=2)
    client.create_topic(stream, "dead", partitions=1)
    with client.producer(stream, "dead") as producer:
        for number in range(COUNT):
            headers = {
                "x-dead-letter-stream": other if number % 3 == 2 else stream,
                "x-dead-letter-topic": name,
                "x-dead-letter-reason": REASONS[number % 3],
                "trace": number,
            }
            producer.send_many([b"%d" % number], headers=headers)
    yield stream, "dead", other
    client.delete_stream(other)


def found(client: sdk.Client, stream: str, topic: str) -> list[sdk.Message]:
    """Messages of all partitions."""
    return [
        message
        for partition in range(client.topic(stream, topic).partitions_count)
        for message in client.read(stream, topic, partition=partition, count=1000)
    ]


def sent(client: sdk.Client, letters: tuple[str, str, str]) -> Counter[int]:
    """Numbers of the letters that were sent back."""
    return Counter(int(one.payload) for stream in (letters[0], letters[2]) for one in found(client, stream, "t"))


def becomes(client: sdk.Client, letters: tuple[str, str, str], numbers: list[int]) -> None:
    """Wait for letters: those of a transaction can be read soon after its commit. Each was sent once."""
    deadline = time.monotonic() + 30
    while (seen := sent(client, letters)) != Counter(numbers) and seen.total() <= len(numbers):
        assert time.monotonic() < deadline, seen
    assert seen == Counter(numbers)


def all_at_the_end(client: sdk.Client, letters: tuple[str, str, str], work: Redrive) -> None:
    """Wait until letters that stay can be read again at the end of the topic."""
    deadline = time.monotonic() + 30
    while work.plan().sent.total() + sent(client, letters).total() < COUNT:
        assert time.monotonic() < deadline


STEPS = [
    *((step, when, call) for step in ("stage", "begin", "commit") for when in ("before", "after") for call in (1, 2)),
    *(("commit_foreign", when, call) for when in ("before", "after") for call in (1, 2)),
    *(("forget_intent", when, call) for when in ("before", "after") for call in (1, 2, 3)),
    *((step, when, 1) for step in ("reset", "take_over") for when in ("before", "after")),
]


@pytest.mark.parametrize(("step", "when", "call"), STEPS)
def test_each_letter_is_sent_once_whatever_is_killed(
    server: Server, client: sdk.Client, letters: tuple[str, str, str], step: str, when: str, call: int
) -> None:
    """The first run leaves letters of a reason where they are. The next one sends those, too."""
    login = (server.address, server.username, server.password)
    arguments = (*login, *letters[:2], "no JSON|elsewhere", step, when, str(call))
    process = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    work = Redrive(Target(*login), *letters[:2], to=None, reason=None, count=None)
    for _ in range(2):
        work.run(work.plan(), lambda _count: None)
        all_at_the_end(client, letters, work)
    becomes(client, letters, list(range(COUNT)))
    messages = [one for stream in (letters[0], letters[2]) for one in found(client, stream, "t")]
    assert len({message.id for message in messages}) == COUNT
    assert all(message.headers == {"trace": int(message.payload)} for message in messages)
    assert {int(one.payload) for one in found(client, letters[2], "t")} == set(range(2, COUNT, 3))


def test_everything_is_sent_again_without_the_group(
    server: Server, client: sdk.Client, letters: tuple[str, str, str]
) -> None:
    """The record of what was sent belongs to the group, and to this log of the topic."""
    work = Redrive(Target(server.address, server.username, server.password), *letters[:2], None, None, None)
    work.run(work.plan(), lambda _count: None)
    becomes(client, letters, list(range(COUNT)))
    client.delete_group(*letters[:2], redriving.GROUP)
    work.run(work.plan(), lambda _count: None)
    becomes(client, letters, [*range(COUNT)] * 2)
    client.purge_topic(*letters[:2])
    with client.producer(*letters[:2]) as producer:
        producer.send_many(
            [b"0"],
            headers={
                "x-dead-letter-stream": letters[0],
                "x-dead-letter-topic": "t",
                "x-dead-letter-reason": "again",
            },
        )
    client.delete_group(*letters[:2], redriving.GROUP)
    work.run(work.plan(), lambda _count: None)
    becomes(client, letters, [*range(COUNT), *range(COUNT), 0])


def test_nothing_that_a_reader_stores_moves_letters(
    server: Server, client: sdk.Client, letters: tuple[str, str, str]
) -> None:
    """A reader of the stream stores the offset of the group, and pins a batch that sends all letters elsewhere."""
    stream, dead, _ = letters
    client.create_topic(stream, "stolen", partitions=1)
    rights = sdk.GlobalPermissions(poll_messages=True, read_streams=True)
    client.create_user("reader", "password", permissions=sdk.Permissions(everywhere=rights))
    target = Target(server.address, server.username, server.password)
    try:
        with (
            sdk.connect(f"headrace://reader:password@{server.address}") as reader,
            reader.consumer(stream, dead, group=redriving.GROUP, start="first") as consumer,
        ):
            seen = 0
            while seen < COUNT:
                for message in consumer.poll(timeout=60) or ():
                    consumer.commit(message)
                    seen += 1
        with Target(server.address, "reader", "password").connected() as connection, target.connected() as other:
            path = find_topic(other, stream, dead)
            ((partition, generation),) = generations(target, path, [0]).items()
            ledger = Ledger(client, connection, path, partition, generation)
            forged = Intent("forged", 0, COUNT, [(stream, "stolen")], dict.fromkeys(range(COUNT), 0))
            ledger._pinned(msgspec.json.encode(forged))
        work = Redrive(target, stream, dead, to=None, reason=None, count=None)
        for _ in range(2):
            work.run(work.plan(), lambda _count: None)
        becomes(client, letters, list(range(COUNT)))
        assert found(client, stream, "stolen") == []
    finally:
        client.delete_user("reader")


def test_letters_of_a_stream_that_was_deleted_meanwhile_stay(
    server: Server, client: sdk.Client, letters: tuple[str, str, str], headrace: Shell
) -> None:
    """A run was killed with a batch for the stream, which is gone when the next one ends the batch."""
    login = (server.address, server.username, server.password)
    arguments = (*login, *letters[:2], ".*", "begin", "after", "1")
    assert subprocess.run([sys.executable, PROGRAM, *arguments], check=False).returncode == -signal.SIGKILL
    client.delete_stream(letters[2])
    work = Redrive(Target(*login), *letters[:2], None, re.compile("no JSON|too late"), None)
    work.run(work.plan(), lambda _count: None)
    client.create_stream(letters[2])
    client.create_topic(letters[2], "t", partitions=2)
    work.reason = None
    all_at_the_end(client, letters, work)
    assert "elsewhere" in headrace("connect", "redrive", *letters[:2], "--yes")
    becomes(client, letters, list(range(COUNT)))


def test_a_run_that_was_overtaken_sends_nothing_more(
    server: Server, client: sdk.Client, letters: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run begins while the first one stands still before a commit."""
    work = Redrive(Target(server.address, server.username, server.password), *letters[:2], None, None, None)
    original = Ledger.commit
    overtaken = []

    def commit(ledger, end, stages):
        if not overtaken:
            overtaken.append(ledger)
            # The server has removed the member that stands still: another group has none.
            client.create_group(*letters[:2], "other")
            other = Redrive(work.target, *letters[:2], None, None, None, group="other")
            other.run(other.plan(), lambda _count: None)
        original(ledger, end, stages)

    monkeypatch.setattr(Ledger, "commit", commit)
    with pytest.raises(CommandError, match=r"another redrive of .*dead is at work"):
        work.run(work.plan(), lambda _count: None)
    becomes(client, letters, list(range(COUNT)))
