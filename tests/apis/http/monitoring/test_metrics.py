"""Metrics of the server for Prometheus (USE-6)."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.apis.http.api import Api, batch
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scraped(anonymous: Api) -> Samples:
    text = (await anonymous("GET", "/metrics")).body.decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, /, **labels: str) -> float:
    return samples.get((f"headrace_{name}", tuple(sorted(labels.items()))), 0.0)


async def test_requests_by_command_and_status(root: Api, anonymous: Api, shared_server: ServerProcess) -> None:
    """Requests of every API are counted once, where they are executed."""
    before = await scraped(anonymous)
    topic = await root.create_topic("measured")
    with RawConnection.as_root(shared_server.address) as connection:
        connection.send("measured", "t", 0, b"one", b"two")
        assert connection.status(Code.GET_STREAM, b"") == Status.INVALID_COMMAND
        await root.ok("POST", f"{topic}/messages", batch(b"three", partition=0))
        polled = await root.ok("GET", f"{topic}/messages?kind=first&count=10")
        assert polled["count"] == 3
        after = await scraped(anonymous)
        assert value(after, "connections", transport="tcp") == 1

    def grown(name: str, /, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("command_duration_seconds_count", command="SendMessages") == 2
    assert grown("command_duration_seconds_bucket", command="SendMessages", le="+Inf") == 2
    assert grown("command_duration_seconds_bucket", command="SendMessages", le="16.7772") == 2
    assert grown("command_duration_seconds_sum", command="SendMessages") > 0
    assert grown("command_duration_seconds_count", command="CreateTopic") == 1
    assert grown("command_refusals_total", code="3", name="invalid_command") == 1
    assert grown("appended_messages_total") == 3
    assert grown("polled_messages_total") == 3
    assert grown("appended_bytes_total") > 3 * 64
    assert grown("polled_bytes_total") > 3 * 64
    assert grown("received_bytes_total") > grown("appended_bytes_total")
    assert grown("sent_bytes_total") > grown("polled_bytes_total")
    assert grown("accepted_connections_total") >= 1


async def test_buckets_only_grow(anonymous: Api) -> None:
    samples = await scraped(anonymous)
    by_command: dict[str, list[tuple[float, float]]] = {}
    for (name, labels), count in samples.items():
        if name == "headrace_command_duration_seconds_bucket":
            found = dict(labels)
            by_command.setdefault(found["command"], []).append((float(found["le"]), count))
    assert by_command
    for command, buckets in by_command.items():
        counts = [count for _, count in sorted(buckets)]
        assert counts == sorted(counts), command
        assert counts[-1] == value(samples, "command_duration_seconds_count", command=command)


async def test_every_part_of_the_process(anonymous: Api) -> None:
    """Metrics of metadata, memory, mailboxes, TLS listeners and the process."""
    samples = await scraped(anonymous)
    assert value(samples, "metadata_role", role="primary") == 1
    assert value(samples, "metadata_op") >= 1
    assert value(samples, "metadata_sessions") == 0
    assert value(samples, "node_pool_capacity_bytes") == 1024**3
    purposes = {dict(labels)["purpose"] for name, labels in samples if name == "headrace_memory_bytes"}
    kept = {"tail", "read_ahead", "index", "offsets", "catalog", "links", "subscriptions"}
    assert purposes == {"receive", "reads", *kept}
    assert ("headrace_shard_mailbox_messages", (("shard", "0"),)) in samples
    assert ("headrace_listener_handshakes_total", (("listener", "quic"),)) in samples
    assert samples["process_resident_memory_bytes", ()] > 10**7
    assert ("headrace_traces_dropped_total", ()) in samples
    (driver,) = [dict(labels) for name, labels in samples if name == "headrace_node_driver_info"]
    assert driver["driver"] in {"uring", "poll"}
    assert (driver["driver"] == "uring") == (driver["reason"] == "")


async def test_the_text_is_what_readers_expect(anonymous: Api) -> None:
    """Each metric is described once, and its samples are adjacent."""
    text = (await anonymous("GET", "/metrics")).body.decode()
    described = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(described) == len(set(described))
