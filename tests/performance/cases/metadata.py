"""Control plane commands on replicas of the metadata service, each command durable on a majority of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import grpc
import psutil

from headrace_proto.metadata.v1 import GetStatusRequest
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.metadata_replicas import METADATA, ReplicaProcess
from tests.performance.loads.measurement import Measurement
from tests.performance.results.metrics import Metric, at_least, each
from tests.performance.results.section import CPU_PER_REQUEST, P50, P99, REQUESTS_PER_SECOND, Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench
from tests.ports import free_port

CLIENTS = 64
REPLICAS = (1, 3)
_START_SECONDS_MAX = 60.0


class NoPrimary(Exception):
    """The replicas did not agree on a primary in time."""


def run(bench: Workbench) -> Section:
    """Measure the case."""
    turns: dict[str, Turn[Measurement]] = {_name(count): _turn(bench, count) for count in REPLICAS}
    samples = alternate(turns, bench.scale.rounds, bench.started)
    rates = each(samples[_name(3)], lambda run: run.requests_per_second)
    return Section(
        name="metadata",
        title=f"commands from {CLIENTS} clients over gRPC, each synced on a majority before its answer",
        columns=(REQUESTS_PER_SECOND, P50, P99, CPU_PER_REQUEST),
        samples=samples,
        metrics=[Metric(f"commands/s, {_name(3)}", rates, "", at_least(2000.0))],
        notes=("All replicas and the clients share this machine; CPU time is that of the replicas.",),
    )


def _name(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


def _turn(bench: Workbench, count: int) -> Turn[Measurement]:
    def turn() -> Mapping[str, Measurement]:
        with _replicas(bench, count) as replicas:
            primary = _primary(replicas)
            before = sum(_cpu_seconds(replica) for replica in replicas)
            command = [sys.executable, "-m", "tests.performance.loads.metadata_load", primary.address]
            command += [str(CLIENTS), str(bench.scale.commits_seconds * 2)]
            report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            cpu_seconds = sum(_cpu_seconds(replica) for replica in replicas) - before
        measured = Measurement(
            requests=report["requests"],
            payload_bytes=0,
            wall_seconds=report["wall_seconds"],
            cpu_seconds=cpu_seconds,
            client_cpu_seconds=report["cpu_seconds"],
            p50_micros=report["p50_micros"],
            p99_micros=report["p99_micros"],
        )
        return {_name(count): measured}

    return turn


@contextmanager
def _replicas(bench: Workbench, count: int) -> Generator[list[ReplicaProcess]]:
    directory = bench.directory / f"metadata-{time.monotonic_ns()}"
    directory.mkdir()
    ports = [(free_port(), free_port()) for _ in range(count)]
    members = [f"127.0.0.1:{peer_port}" for peer_port, _ in ports]
    replicas = [ReplicaProcess(directory, index, members, ports[index], {}) for index in range(count)]
    try:
        for replica in replicas:
            replica.start()
        yield replicas
    finally:
        for replica in replicas:
            replica.kill()


def _primary(replicas: list[ReplicaProcess]) -> ReplicaProcess:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < deadline:
        for replica in replicas:
            with grpc.insecure_channel(replica.address) as channel:
                try:
                    status = MetadataStub(channel).GetStatus(GetStatusRequest(), metadata=METADATA, timeout=1.0)
                except grpc.RpcError:
                    continue
            if status.HasField("primary") and status.primary == replica.index:
                return replica
        time.sleep(0.05)
    raise NoPrimary("\n".join(replica.log_text()[-2000:] for replica in replicas))


def _cpu_seconds(replica: ReplicaProcess) -> float:
    times = psutil.Process(replica.process.pid).cpu_times()
    return float(times.user + times.system)
