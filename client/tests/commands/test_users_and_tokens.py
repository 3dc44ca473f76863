"""Users, their permissions and access tokens, by the command line."""

from __future__ import annotations

import json
from typing import Any

from tests import command_line
from tests.command_line.shell import Shell

import headrace as sdk


def login(headrace: Shell, **variables: str) -> Shell:
    """Return a shell with other credentials."""
    other = Shell.__new__(Shell)
    other.environment, other.login = headrace.environment, variables
    return other


def shown(headrace: Shell, name: str) -> list[dict[str, Any]]:
    grants: list[dict[str, Any]] = json.loads(headrace("user", "show", name, "--json"))["grants"]
    return grants


def test_a_user_comes_and_goes(headrace: Shell) -> None:
    created = json.loads(headrace("user", "create", "ann", "--new-password", "secret", "--json"))
    assert (created["name"], created["status"]) == ("ann", "active")
    ann = login(headrace, HEADRACE_USERNAME="ann", HEADRACE_PASSWORD="secret")
    assert ann.run("token", "list").returncode == 0
    headrace("user", "deactivate", "ann")
    assert ann.run("token", "list").stderr == b"error: user 'ann' is not active: headrace user activate ann\n"
    headrace("user", "activate", "ann")
    headrace("user", "password", "ann", "--current-password", "secret", "--new-password", "changed")
    wrong = headrace.run("user", "password", "ann", "--current-password", "secret", "--new-password", "other")
    assert wrong.stderr == b"error: this is not the current password of 'ann'\n"
    assert ann.run("token", "list").returncode == 1
    headrace("user", "rename", "ann", "anna")
    assert "anna" in headrace("user", "list")
    assert headrace.run("user", "delete", "anna", "--yes").stderr == b"deleted user 'anna'\n"
    missing = headrace.run("user", "show", "anna").stderr.decode()
    assert missing.startswith("error: there is no user 'anna' (there is: ")


def test_permissions_are_given_and_taken(headrace: Shell, topic: tuple[str, str]) -> None:
    stream, name = topic
    headrace("user", "create", "bob", "--new-password", "secret")
    bob = login(headrace, HEADRACE_USERNAME="bob", HEADRACE_PASSWORD="secret")
    refused = bob.run("send", *topic, "x", "-p", "0")
    text = f"bob lacks send_messages on {stream}/{name}: "
    command = f"headrace user grant bob send_messages --stream {stream} --topic {name}"
    assert refused.stderr.decode() == f"error: {text}{command}\n"
    unread = bob.run("poll", *topic).stderr.decode()
    assert f"error: bob lacks read_topic on {stream}/{name}: headrace user grant bob read_topic --stream " in unread
    assert unread.endswith("; without it, give the partitions with --partition\n")
    assert (
        bob.run("topic", "show", *topic).stderr.decode().startswith(f"error: bob lacks read_topic on {stream}/{name}")
    )
    headrace(*command.split()[1:])
    assert bob.run("send", *topic, "x", "-p", "0").returncode == 0
    assert [grant["permissions"] for grant in shown(headrace, "bob")] == [["send_messages"]]
    headrace("user", "grant", "bob", "read_topics", "--stream", stream)
    headrace("user", "grant", "bob", "read_servers")
    assert [grant["permissions"] for grant in shown(headrace, "bob")] == [
        ["read_servers"],
        ["read_topics"],
        ["send_messages"],
    ]
    assert f"{stream}/{name}" in headrace("user", "show", "bob")
    headrace("user", "revoke", "bob", "send_messages", "--stream", stream, "--topic", name)
    assert bob.run("send", *topic, "x", "-p", "0").returncode == 1
    unknown = headrace.run("user", "grant", "bob", "fly", "--stream", stream, "--topic", name)
    assert unknown.stderr == (
        b"error: there is no permission 'fly' on a topic (there are: manage_topic, read_topic, poll_messages, "
        b"send_messages; and the roles consumer and producer)\n"
    )
    headrace("user", "delete", "bob", "--yes")


def test_a_role_has_the_permissions_that_its_programs_need(headrace: Shell, topic: tuple[str, str]) -> None:
    """The SDK reads and joins groups with `consumer` alone, and sends with `producer` alone."""
    stream, name = topic
    headrace("user", "create", "worker", "--new-password", "secret")
    address = headrace.environment["HEADRACE_SERVER"]
    place = ("--stream", stream, "--topic", name)
    for role, rights in (("producer", ["read_topic", "send_messages"]), ("consumer", ["read_topic"])):
        headrace("user", "grant", "worker", role, *place)
        assert [grant["permissions"] for grant in shown(headrace, "worker")] == [rights]
        with sdk.connect(f"headrace://worker:secret@{address}") as client:
            if role == "producer":
                with client.producer(stream, name) as producer:
                    assert producer.send(b"x", partition=0).result().offset == 0
            else:
                with client.consumer(stream, name, group="workers") as consumer:
                    batch = consumer.poll(timeout=30)
                    assert batch is not None
                    assert batch.payloads() == [b"x"]
        headrace("user", "revoke", "worker", role, *place)
        assert shown(headrace, "worker") == []
    headrace("user", "delete", "worker", "--yes")


def test_a_token_logs_in(headrace: Shell) -> None:
    token = headrace("token", "create", "for-test", "--expiry", "1 day").strip()
    listed = json.loads(headrace("token", "list", "--json"))
    assert [(one["name"], one["expires_at_micros"] > 0) for one in listed] == [("for-test", True)]
    result = command_line.run("stream", "list", environment=headrace.environment | {"HEADRACE_TOKEN": token})
    assert result.returncode == 0
    again = headrace.run("token", "create", "for-test")
    assert again.stderr == b"error: there is a token 'for-test' already\n"
    headrace("token", "delete", "for-test", "--yes")
    missing = headrace.run("token", "delete", "for-test", "--yes")
    assert missing.stderr == b"error: there is no token 'for-test' (there is none: headrace token create NAME)\n"


def test_a_client_is_disconnected(headrace: Shell, topic: tuple[str, str]) -> None:
    with headrace.start("poll", *topic, "--follow", "-o", "raw") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        headrace("send", *topic, "before", "-p", "0")
        assert process.stdout.readline() == b"before\n"
        clients = json.loads(headrace("client", "list", "--json"))
        # The last one is the command itself.
        for client in clients[:-1]:
            headrace("client", "disconnect", str(client["client_id"]))
        assert b"reconnecting" in process.stderr.readline()
        headrace("send", *topic, "after", "-p", "0")
        assert process.stdout.readline() == b"after\n"
        process.terminate()


def test_quotas_are_set_shown_and_removed(headrace: Shell, topic: tuple[str, str]) -> None:
    stream, name = topic
    headrace("user", "create", "quentin", "--new-password", "secret")
    said = headrace.run("quota", "set", "--user", "quentin", "--sent", "10 MiB", "--connections", "5").stderr
    assert said == b"set the quota of user 'quentin'\n"
    headrace("quota", "set", "--stream", stream, "--topic", name, "--held", "1 GiB")
    found = json.loads(headrace("quota", "show", "--user", "quentin", "--json"))
    assert (found["user"], found["sent_bytes_per_second"], found["connections"]) == ("quentin", 10 * 2**20, 5)
    assert (found["read_bytes_per_second"], found["held_bytes"], found["topic"]) == (None, None, None)
    of_topic = json.loads(headrace("quota", "show", "--stream", stream, "--topic", name, "--json"))
    assert (of_topic["stream"], of_topic["topic"], of_topic["held_bytes"]) == (stream, name, 2**30)
    assert [one for one in json.loads(headrace("quota", "list", "--json")) if one["user"] == "quentin"] == [found]
    table = headrace("quota", "list")
    assert "10.5 MB/s" in table
    assert f"{stream}/{name}" in table
    headrace("quota", "delete", "--user", "quentin")
    headrace("quota", "delete", "--stream", stream, "--topic", name)
    assert "quentin" not in headrace("quota", "list")

    for arguments, message in (
        (("--user", "iggy", "--connections", "1"), b"error: 'iggy', the root user, has no quota\n"),
        (("--user", "quentin", "--sent", "1 KB"), b"--sent is at least 1 KiB per second"),
        (("--user", "quentin"), b"give a limit, or remove the quota: headrace quota delete"),
        (("--user", "quentin", "--held", "1 GiB"), b"--held is for topics: users hold no bytes"),
        (("--stream", stream, "--topic", name, "--connections", "1"), b"--connections is for users"),
        (("--stream", stream, "--held", "1 GiB"), b"give --user, or --stream and --topic"),
        (("--user", "quentin", "--stream", stream, "--sent", "1 MiB"), b"give --user, or --stream and --topic"),
    ):
        assert message in headrace.run("quota", "set", *arguments).stderr, arguments
