"""Load of commands on a metadata replica, as a process of its own that prints a JSON report.

python -m tests.performance.loads.metadata_load ADDRESS CLIENTS SECONDS
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from grpc import aio

from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateStream, ProposeOutcome, ProposeRequest, Reply, UpdateStream
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.metadata_replicas import CHANNEL_OPTIONS, METADATA

Call = aio.StreamStreamCall[ProposeRequest, ProposeOutcome]


async def measure(address: str, clients: int, seconds: float) -> dict[str, object]:
    """Let `clients` clients, each with its own connection, propose one command after the other."""
    channels = [aio.insecure_channel(address, options=CHANNEL_OPTIONS) for _ in range(clients)]
    calls = [MetadataStub(channel).ProposeStream(metadata=METADATA) for channel in channels]
    streams = [await _created(call, f"client {number}") for number, call in enumerate(calls)]
    latencies: list[float] = []
    begin = time.perf_counter()
    before = os.times()
    await asyncio.gather(
        *(_work(call, stream, begin + seconds, latencies) for call, stream in zip(calls, streams, strict=True))
    )
    wall_seconds = time.perf_counter() - begin
    after = os.times()
    for channel in channels:
        await channel.close()
    latencies.sort()
    return {
        "requests": len(latencies),
        "wall_seconds": wall_seconds,
        "cpu_seconds": after.user + after.system - before.user - before.system,
        "p50_micros": latencies[len(latencies) // 2] * 1e6,
        "p99_micros": latencies[len(latencies) * 99 // 100] * 1e6,
    }


async def _created(call: Call, name: str) -> int:
    reply = await _propose(call, Command(create_stream=CreateStream(name=f"{name} {time.time_ns()}")))
    return int(reply.stream.id)


async def _work(call: Call, stream: int, end: float, latencies: list[float]) -> None:
    number = 0
    while (begin := time.perf_counter()) < end:
        number += 1
        await _propose(call, Command(update_stream=UpdateStream(stream_id=stream, name=f"{stream} {number}")))
        latencies.append(time.perf_counter() - begin)


async def _propose(call: Call, command: Command) -> Reply:
    await call.write(ProposeRequest(command=command))
    outcome = await call.read()
    assert isinstance(outcome, ProposeOutcome)
    assert outcome.response.reply.status == Status.OK
    return outcome.response.reply


if __name__ == "__main__":
    report = asyncio.run(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
    sys.stdout.write(f"{json.dumps(report)}\n")
