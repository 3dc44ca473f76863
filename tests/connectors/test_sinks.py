"""CON-16: sinks in whole pipelines: a server, connectors, and what they write."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

import headrace
from tests.connectors.process import Connectors, until
from tests.sdk.proxy import Proxy

FAST = '[sinks.a.delivery]\nbackoff_min = "5 ms"\nbackoff_max = "20 ms"\ncommit_failure_threshold = 3\n'


def stdout(stream: str, more: str = "") -> str:
    return f'[sinks.a]\nplugin = "stdout"\nstream = "{stream}"\ntopic = "t"\nlinger = "10 ms"\n{more}\n{FAST}'


def lines(connectors: Connectors) -> list[dict[str, Any]]:
    """Lines of JSON in the output."""
    text = connectors.log.read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines() if line.startswith('{"stream"')]
    return [line for line in found if "offset" in line]


@pytest.fixture
def topic(client: headrace.Client, stream: str) -> str:
    """A stream with the topics `t` and `u` of two partitions each."""
    client.create_stream(stream)
    for name in ("t", "u"):
        client.create_topic(stream, name, partitions=2)
    return stream


def send(client: headrace.Client, stream: str, payloads: list[bytes], topic: str = "t") -> None:
    with client.producer(stream, topic) as producer:
        for number, payload in enumerate(payloads):
            producer.send_many([payload], partition=number % 2)


def owned(client: headrace.Client, stream: str) -> set[int]:
    """Partitions of topic `t` that members of the group `a` have."""
    groups = [group for group in client.groups(stream, "t") if group.name == "a"]
    members = [member for group in groups for member in client.group(stream, "t", group.name).members]
    return {partition for member in members for partition in member.partitions}


def test_a_sink_reads_its_topics_and_continues_where_it_was(
    client: headrace.Client, connectors: Connectors, topic: str
) -> None:
    """Every message once over two runs; offsets are stored in the group of the sink."""
    for name in ("t", "u"):
        send(client, topic, [b"%d" % number for number in range(10)], name)
    topics = f'topics = [{{ stream = "{topic}", topic = "t" }}, {{ stream = "{topic}", topic = "u" }}]'
    connectors.run(f'[sinks.a]\nplugin = "stdout"\n{topics}\nlinger = "10 ms"\n{FAST}')
    until(lambda: connectors.status("a")["records_count"] == 20)
    assert connectors.status("a")["kind"] == "sink"
    assert connectors.metric("headrace_connector_records_written_total", connector_key="a") == 20
    assert connectors.metric("headrace_connector_state", connector_key="a", state="running") == 1
    assert connectors.stop() == 0
    send(client, topic, [b"10", b"11"])
    connectors.run()
    until(lambda: connectors.status("a")["records_count"] == 2)
    found = lines(connectors)
    assert sorted(line["payload"] for line in found if line["topic"] == "t") == list(range(12))
    assert sorted(line["payload"] for line in found if line["topic"] == "u") == list(range(10))
    for name in ("t", "u"):
        for partition in range(2):
            offsets = [line["offset"] for line in found if (line["topic"], line["partition"]) == (name, partition)]
            assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize(("policy", "letters"), [("dead_letter", [b"no", b"{"]), ("drop", None)])
def test_an_invalid_message_is_put_aside_and_the_others_are_written(
    client: headrace.Client, connectors: Connectors, topic: str, policy: str, letters: list[bytes] | None
) -> None:
    """The headers of the letter have its place and the reason."""
    send(client, topic, [b"0", b"{", b"2", b"no", b"4"])
    connectors.run(stdout(topic, f'on_invalid = "{policy}"'))
    until(lambda: connectors.status("a")["invalid_count"] == 2)
    until(lambda: connectors.status("a")["records_count"] == 3)
    assert sorted(line["payload"] for line in lines(connectors)) == [0, 2, 4]
    status = connectors.status("a")
    assert "the payload is not JSON" in status["last_error"], "the reason is in the status, not in the log alone"
    assert (status["state"], status["consecutive_failures"]) == ("running", 0)
    if letters is None:
        with pytest.raises(headrace.NotFound):
            client.topic(topic, "t-dead")
        return
    found = list(client.read(topic, "t-dead"))
    assert sorted(letter.payload for letter in found) == letters
    assert all("the payload is not JSON" in letter.headers["x-dead-letter-reason"] for letter in found)
    assert sorted(letter.headers["x-dead-letter-offset"] for letter in found) == ["0", "1"]
    assert connectors.metric("headrace_connector_dead_letters_total", connector_key="a") == 2


def test_an_invalid_message_stops_the_sink_if_it_is_to(
    client: headrace.Client, connectors: Connectors, topic: str
) -> None:
    """The status names its place, and it is read again after the restart."""
    send(client, topic, [b"{"])
    connectors.run(stdout(topic, 'on_invalid = "error"'))
    status = connectors.becomes("a", "error")
    assert status["error_code"] == "invalid_record"
    assert f"{topic}/t, partition 0, offset 0: the payload is not JSON" in status["last_error"]
    connectors.post("/connectors/a/restart")
    connectors.becomes("a", "error")
    assert lines(connectors) == []


def test_a_sink_waits_for_its_topic(client: headrace.Client, connectors: Connectors, stream: str) -> None:
    """The sink is `degraded` meanwhile, and goes on when the topic is there."""
    connectors.run(stdout(stream))
    connectors.becomes("a", "degraded")
    client.create_stream(stream)
    client.create_topic(stream, "t", partitions=2)
    send(client, stream, [b"1"])
    until(lambda: connectors.status("a")["records_count"] == 1)
    connectors.becomes("a", "running")


def test_a_second_member_takes_partitions_over_and_nothing_is_written_twice(
    client: headrace.Client, connectors: Connectors, topic: str
) -> None:
    """Messages that a sink holds are flushed, and their offset stored, before a partition is given up."""
    pipeline = stdout(topic).replace('"10 ms"', '"1 hour"')
    connectors.run(pipeline)
    connectors.becomes("a", "running")
    until(lambda: owned(client, topic) == {0, 1})
    send(client, topic, [b"%d" % number for number in range(10)])
    with client.consumer(topic, "t", group="a", commit="manual") as member:
        first = None

        def has_joined() -> bool:
            nonlocal first
            # It has messages at once if the sink had read fewer than there are.
            first = member.poll(timeout=0.05)
            return first is not None or bool(member.assignment)

        until(has_joined)
        send(client, topic, [b"10", b"11"])
        batch = first or until(lambda: member.poll(timeout=0.05))
        (partition,) = member.assignment
    # The sink has usually read five messages of each partition by then; on a busy machine it may have read fewer.
    found = [line["offset"] for line in lines(connectors) if line["partition"] == partition]
    assert found == list(range(batch.first_offset))


@pytest.fixture
def at_end(client: headrace.Client, connectors: Connectors, proxy: Proxy, topic: str) -> str:
    """A topic with messages; a sink has begun at its end, and writes four at a time."""
    del proxy
    send(client, topic, [b"-1"] * 8)
    more = 'start = "end"\nbatch_size = 4'
    connectors.run(stdout(topic, more).replace('"10 ms"', '"1 hour"'))
    until(lambda: owned(client, topic) == {0, 1})
    return topic


def written(connectors: Connectors, count: int = 4) -> list[int]:
    """Wait for so many messages or more; return all that were written."""
    until(lambda: connectors.status("a")["records_count"] >= count)
    return sorted(line["payload"] for line in lines(connectors))


def test_a_sink_that_began_at_the_end_reads_again_what_it_held(
    client: headrace.Client, connectors: Connectors, proxy: Proxy, at_end: str
) -> None:
    """The consumer that follows a broken connection begins where the first one did."""
    send(client, at_end, [b"0", b"1", b"2"])
    # They are read meanwhile, usually.
    time.sleep(0.5)
    proxy.cut()
    until(lambda: owned(client, at_end) == {0, 1})
    send(client, at_end, [b"3"])
    assert written(connectors) == [0, 1, 2, 3]
    proxy.cut()
    send(client, at_end, [b"4", b"5", b"6", b"7"])
    until(lambda: connectors.status("a")["records_count"] == 8)
    assert written(connectors) == list(range(8)), "what is stored is not written again"


@pytest.mark.parametrize(("is_purged", "count"), [(False, 4), (True, 4), (True, 16)])
def test_a_sink_that_began_at_the_end_reads_what_came_while_it_was_cut_off(
    client: headrace.Client, connectors: Connectors, proxy: Proxy, at_end: str, *, is_purged: bool, count: int
) -> None:
    """Offsets of a topic that was purged meanwhile are those of other messages, also if there are more of them."""
    proxy.accepts = False
    proxy.cut()
    until(lambda: not owned(client, at_end))
    if is_purged:
        client.purge_topic(at_end, "t")
    send(client, at_end, [b"%d" % number for number in range(count)])
    proxy.accepts = True
    assert written(connectors, count) == list(range(count))


def test_a_sink_that_began_at_the_end_reads_all_of_a_partition_that_is_added(
    client: headrace.Client, connectors: Connectors, at_end: str
) -> None:
    """The sink finds it later than the first messages do."""
    client.create_partitions(at_end, "t", 1)
    with client.producer(at_end, "t") as producer:
        producer.send_many([b"0", b"1", b"2", b"3"], partition=2)
    assert written(connectors) == [0, 1, 2, 3]


def test_calls_for_sources_are_refused_for_a_sink(client: headrace.Client, connectors: Connectors, topic: str) -> None:
    """The answer says what the connector is."""
    del client
    connectors.run(stdout(topic))
    connectors.becomes("a", "running")
    for path, method in (("/connectors/a/destinations", "GET"), ("/sources/a/cdc/abandon-batch", "POST")):
        with pytest.raises(OSError, match="409"):
            connectors.get(path, method)
    assert connectors.post("/connectors/a/stop")["state"] == "stopped"
    assert connectors.post("/connectors/a/start")["key"] == "a"
