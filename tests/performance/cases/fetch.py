"""Reads of a partition from its node: by gRPC, by the binary protocol, and the raw loopback for comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

import grpc
import psutil

from headrace_core import Client
from headrace_proto.partition.v1 import FetchRange, FetchRequest, Place
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from tests.performance.deployment import Deployment, deployed
from tests.performance.loads.load import STREAM, TOPIC, Load, run_native
from tests.performance.loads.measurement import Measurement
from tests.performance.machine_limits import send_over_loopback
from tests.performance.options import GB
from tests.performance.results.metrics import Metric, each, ratios
from tests.performance.results.section import CLIENT_CPU_PER_GB, CPU_PER_GB, MB_PER_SECOND, Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench
from tests.server_process import PASSWORD, USERNAME

GRPC, BINARY, RAW = "gRPC fetch", "binary polls", "raw loopback"
MESSAGE_BYTES = 1000
UNLIMITED = (("grpc.max_receive_message_length", -1),)


def run(bench: Workbench) -> Section:
    """Measure the case."""
    amount = min(bench.scale.large_bytes, 1 * GB)
    load = Load(
        mode="produce",
        connections=1,
        message_size_bytes=MESSAGE_BYTES,
        messages_per_batch=1000,
        amount={"bytes": amount},
        warm_up_seconds=0.0,
    )
    with ExitStack() as stack:
        deployment = stack.enter_context(deployed(bench.directory / "fetch"))
        stack.enter_context(deployment.topic(1))
        run_native(load, deployment.direct)
        turns: dict[str, Turn[Measurement]] = {
            GRPC: lambda: {GRPC: _fetch(deployment, amount)},
            BINARY: lambda: {BINARY: run_native(replace(load, mode="consume"), deployment.direct)},
            RAW: lambda: {RAW: send_over_loopback(amount)},
        }
        samples = alternate(turns, bench.scale.rounds, bench.started)
    return Section(
        name="fetch",
        title="one partition of messages of 1000 B, read by one connection from the page cache of its node",
        columns=(MB_PER_SECOND, CPU_PER_GB, CLIENT_CPU_PER_GB),
        samples=samples,
        metrics=_metrics(samples),
        notes=("CPU is that of the node, or of the thread that sends; client CPU that of who reads.",),
    )


def _fetch(deployment: Deployment, amount: int) -> Measurement:
    """Read the whole partition with one call."""
    place = _place(deployment)
    node = psutil.Process(deployment.node_pid)
    requests, messages = 0, 0
    with grpc.insecure_channel(deployment.grpc, options=UNLIMITED) as channel:
        grpc.channel_ready_future(channel).result(timeout=30.0)
        before, own, begin = node.cpu_times(), os.times(), time.perf_counter()
        ranges = iter([FetchRequest(range=FetchRange(place=place))])
        for response in PartitionStub(channel).Fetch(ranges, metadata=(("headrace-ticket", deployment.ticket),)):
            requests += 1
            # Partition and offset precede the number of messages.
            messages += int.from_bytes(response.polled[12:16], "little")
        wall_seconds = time.perf_counter() - begin
        after, own_after = node.cpu_times(), os.times()
    assert messages * MESSAGE_BYTES == amount, f"{messages} messages are not {amount} bytes"
    return Measurement(
        requests=requests,
        payload_bytes=amount,
        wall_seconds=wall_seconds,
        cpu_seconds=after.user + after.system - before.user - before.system,
        client_cpu_seconds=own_after.user + own_after.system - own.user - own.system,
    )


def _place(deployment: Deployment) -> Place:
    client = Client.connect(deployment.through_gateway.address)
    client.login(USERNAME, PASSWORD)
    (stream,) = (stream for stream in client.streams() if stream.name == STREAM)
    (topic,) = (topic for topic in client.topics(STREAM) if topic.name == TOPIC)
    client.close()
    return Place(stream_id=stream.id, topic_id=topic.id, partition_id=0)


def _metrics(samples: Mapping[str, list[Measurement]]) -> list[Metric]:
    def rate(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.mb_per_second)

    def cpu(name: str) -> tuple[float, ...]:
        return each(samples[name], lambda run: run.cpu_seconds_per_gb)

    return [
        Metric("throughput, gRPC fetch / binary polls", ratios(rate(GRPC), rate(BINARY))),
        Metric("throughput, gRPC fetch / raw loopback", ratios(rate(GRPC), rate(RAW))),
        Metric("throughput, binary polls / raw loopback", ratios(rate(BINARY), rate(RAW))),
        Metric("CPU, gRPC fetch / binary polls", ratios(cpu(GRPC), cpu(BINARY))),
        Metric("CPU, binary polls / raw loopback", ratios(cpu(BINARY), cpu(RAW))),
    ]
