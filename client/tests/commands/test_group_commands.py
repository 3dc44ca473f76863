"""Consumer groups against a running server: the commands, and the native client."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from tests.command_line.shell import Shell

from headrace.connection import Credentials, connected
from headrace_core import Client, ServerError
from headrace_embedded import Server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connected(server.address, Credentials(server.username, server.password)) as client:
        yield client


@pytest.fixture
def group(headrace: Shell, topic: tuple[str, str]) -> tuple[str, str, str]:
    headrace("group", "create", *topic, "g")
    return *topic, "g"


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def interrupted(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(30)


def test_groups_come_and_go(headrace: Shell, topic: tuple[str, str]) -> None:
    """CTL-2: groups of a topic, by name or id."""
    created = json.loads(headrace("group", "create", *topic, "billing", "--json"))
    assert created == {"id": created["id"], "name": "billing", "partitions_count": 2, "members_count": 0}
    headrace("group", "create", *topic, "audit")
    listed = json.loads(headrace("group", "list", *topic, "--json"))
    assert [group["name"] for group in listed] == ["billing", "audit"]
    assert "audit" in headrace("group", "list", *topic)
    headrace("send", *topic, "a", "b", "-p", "1")
    for place in (topic, topic[:1], ()):
        everywhere = json.loads(headrace("group", "list", *place, "--json"))
        rows = [
            (one["topic"], one["name"], one["lag_messages"], one["unreached_count"])
            for one in everywhere
            if one["stream"] == topic[0]
        ]
        assert rows == [(topic[1], "billing", 2, 0), (topic[1], "audit", 2, 0)]
    headrace("group", "delete", *topic, str(created["id"]), "--yes")
    assert "billing" not in headrace("group", "list", *topic)
    missing = headrace.run("group", "show", *topic, "billing")
    assert missing.returncode == 1
    assert "there is no group" in missing.stderr.decode()


def test_results_print_with_their_fields(client: Client, group: tuple[str, str, str]) -> None:
    stream, topic, name = group
    found = client.topic(stream, topic)
    assert found is not None
    assert repr(found) == f"Topic(id={found.id}, name='t', partitions_count=2, messages_count=0, size_bytes=0)"
    assert repr(found.partitions[1]) == "Partition(id=1, current_offset=0, messages_count=0, size_bytes=0)"
    shown = repr(client.group(stream, topic, name))
    assert shown == "ConsumerGroup(id=0, name='g', partitions_count=2, members_count=0)"


def test_a_member_goes_on_where_the_group_is(headrace: Shell, group: tuple[str, str, str]) -> None:
    """CTL-8: offsets are the group's."""
    stream, topic, name = group
    headrace("send", stream, topic, "a", "b", "c", "-p", "0")
    headrace("send", stream, topic, "x", "y", "-p", "1")
    member = ("poll", stream, topic, "--group", name, "-o", "raw")
    first = headrace(*member, "-n", "2").split()
    assert len(first) == 2
    assert sorted(first + headrace(*member).split()) == ["a", "b", "c", "x", "y"]
    assert headrace(*member) == ""
    shown = json.loads(headrace("group", "show", *group, "--json"))
    assert shown["members"] == []
    assert shown["partitions"] == [
        {"id": 0, "member": None, "stored_offset": 2, "last_offset": 2, "lag_messages": 0},
        {"id": 1, "member": None, "stored_offset": 1, "last_offset": 1, "lag_messages": 0},
    ]
    headrace("send", stream, topic, "d", "-p", "0")
    assert json.loads(headrace("group", "show", *group, "--json"))["partitions"][0]["lag_messages"] == 1
    assert "lag (messages)" in headrace("group", "show", *group)


def test_the_lag_of_a_group(headrace: Shell, client: Client, group: tuple[str, str, str]) -> None:
    """USE-6: lag in messages and seconds, by partition and in total."""
    stream, topic, _ = group
    none = json.loads(headrace("group", "lag", *group, "--json"))
    assert (none["lag_messages"], none["lag_seconds"]) == (0, 0)
    client.send(stream, topic, [b"a", b"b", b"c"], partition=0)
    client.join_group(*group)
    client.store_offset(stream, topic, 0, 0, group="g")
    lag = json.loads(headrace("group", "lag", *group, "--json"))
    assert lag["lag_messages"] == 2
    first, second = lag["partitions"]
    assert first["lag_seconds"] == lag["lag_seconds"]
    assert 0 < lag["lag_seconds"] < 60
    assert (first["stored_offset"], first["last_offset"], first["lag_messages"]) == (0, 2, 2)
    assert (second["stored_offset"], second["last_offset"], second["lag_seconds"]) == (None, None, 0)
    assert first["member"] == second["member"] is not None
    assert "lag (seconds)" in headrace("group", "lag", *group)
    assert headrace.run("group", "lag", stream, topic, "nobody").returncode == 1


def test_an_interrupted_member_stores_and_leaves(headrace: Shell, client: Client, group: tuple[str, str, str]) -> None:
    stream, topic, name = group
    with headrace.start("poll", stream, topic, "--group", name, "--follow", "-o", "raw") as process:
        assert process.stdout is not None
        for number in range(5):
            client.send(stream, topic, [b"%d" % number], partition=number % 2)
            assert process.stdout.readline() == b"%d\n" % number
        shown = json.loads(headrace("group", "show", *group, "--json"))
        assert [member["partitions"] for member in shown["members"]] == [[0, 1]]
        assert interrupted(process) == 130
        assert process.stdout.read() == b""
    found = client.group(*group)
    assert found is not None
    assert found.members_count == 0
    stored = [client.offset(stream, topic, partition, group=name) for partition in (0, 1)]
    assert [offset.stored_offset for offset in stored if offset is not None] == [2, 1]


def test_two_members_share_the_partitions(headrace: Shell, client: Client, group: tuple[str, str, str]) -> None:
    """CTL-8: each partition has one member, and moves to another one when its member leaves."""
    stream, topic, name = group
    follow = ("poll", stream, topic, "--group", name, "--follow", "-o", "raw")

    def owned() -> list[list[int]]:
        found = client.group(*group)
        assert found is not None
        return sorted(member.partitions for member in found.members)

    with headrace.start(*follow) as one, headrace.start(*follow) as other:
        until(lambda: owned() == [[0], [1]])
        for partition in (0, 1):
            client.send(stream, topic, [b"%d" % partition], partition=partition)
        assert one.stdout is not None
        assert other.stdout is not None
        assert sorted([one.stdout.readline(), other.stdout.readline()]) == [b"0\n", b"1\n"]
        assert interrupted(one) == 130
        until(lambda: owned() == [[0, 1]])
        assert interrupted(other) == 130


@pytest.mark.parametrize("option", [("--partition", "0"), ("--consumer", "me"), ("--from", "first"), ("--no-commit",)])
def test_a_member_has_no_choice(headrace: Shell, group: tuple[str, str, str], option: tuple[str, ...]) -> None:
    stream, topic, name = group
    result = headrace.run("poll", stream, topic, "--group", name, *option)
    assert result.returncode == 2
    assert "--group excludes" in result.stderr.decode().replace("\n", " ")


def test_a_group_that_does_not_exist(headrace: Shell, topic: tuple[str, str]) -> None:
    result = headrace.run("poll", *topic, "--group", "nobody")
    assert result.returncode == 1
    assert "there is no group" in result.stderr.decode()


def test_the_native_client_as_a_member(client: Client, group: tuple[str, str, str]) -> None:
    stream, topic, name = group
    assert [found.name for found in client.groups(stream, topic)] == [name]
    assert client.group(stream, topic, "nobody") is None
    with pytest.raises(ServerError, match="ConsumerGroupMemberNotFound"):
        client.poll(stream, topic, None, group=name)
    client.join_group(*group)
    client.send(stream, topic, [b"one", b"two"], partition=1)
    polled = [client.poll(stream, topic, None, group=name) for _ in range(2)]
    assert [message.payload for answer in polled for message in answer.messages] == [b"one", b"two"]
    client.store_offset(stream, topic, 1, 0, group=name)
    offset = client.offset(stream, topic, 1, group=name)
    assert offset is not None
    assert (offset.partition_id, offset.stored_offset, offset.current_offset) == (1, 0, 1)
    assert [message.payload for message in client.poll(stream, topic, 1, group=name).messages] == [b"two"]
    client.delete_offset(stream, topic, 1, group=name)
    assert client.offset(stream, topic, 1, group=name) is None
    client.leave_group(*group)
    client.delete_group(*group)
    assert client.groups(stream, topic) == []


def test_offsets_of_a_consumer_of_its_own(client: Client, topic: tuple[str, str]) -> None:
    client.send(*topic, [b"one", b"two"], partition=0)
    client.store_offset(*topic, 0, 1, "me")
    offset = client.offset(*topic, 0, "me")
    assert offset is not None
    assert offset.stored_offset == 1
    client.delete_offset(*topic, 0, "me")
    assert client.offset(*topic, 0, "me") is None
