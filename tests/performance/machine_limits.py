"""Limits of this machine without any server."""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from pathlib import Path

from tests.performance.loads.measurement import Measurement

WRITE_BYTES = 1_000_000


def append_to_page_cache(directory: Path, amount_bytes: int) -> Measurement:
    """Append this many bytes to a new file, 1 MB at a time from one thread, and delete it.

    Nothing is synced and nothing else is done: no server that keeps its log in files can append at a lower cost.
    """
    block = memoryview(os.urandom(WRITE_BYTES))
    path = directory / "yardstick"
    writes_count = amount_bytes // WRITE_BYTES
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        start, start_cpu = time.perf_counter(), _cpu_seconds()
        for number in range(writes_count):
            os.pwrite(descriptor, block, number * WRITE_BYTES)
        end, end_cpu = time.perf_counter(), _cpu_seconds()
    finally:
        os.close(descriptor)
        path.unlink()
    return Measurement(
        requests=writes_count,
        payload_bytes=writes_count * WRITE_BYTES,
        wall_seconds=end - start,
        cpu_seconds=end_cpu - start_cpu,
    )


def send_over_loopback(amount_bytes: int) -> Measurement:
    """Send this many bytes over a TCP connection to a reader; CPU time is the sender's."""
    block = os.urandom(WRITE_BYTES)
    writes_count = amount_bytes // WRITE_BYTES
    spent: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver, _ = server.accept()

        def send() -> None:
            begin = time.thread_time()
            for _ in range(writes_count):
                sender.sendall(block)
            spent.append(time.thread_time() - begin)

        thread = threading.Thread(target=send)
        buffer, left = bytearray(WRITE_BYTES), writes_count * WRITE_BYTES
        start, start_cpu = time.perf_counter(), time.thread_time()
        thread.start()
        with receiver:
            while left:
                left -= receiver.recv_into(buffer)
        thread.join()
        end, end_cpu = time.perf_counter(), time.thread_time()
    return Measurement(
        requests=writes_count,
        payload_bytes=writes_count * WRITE_BYTES,
        wall_seconds=end - start,
        cpu_seconds=spent[0],
        client_cpu_seconds=end_cpu - start_cpu,
    )


def append_and_sync(directory: Path, threads_count: int, write_bytes: int, seconds: float) -> Measurement:
    """Append and `fdatasync` in a loop, with a separate file for each thread."""
    block = memoryview(os.urandom(write_bytes))
    commits = [0] * threads_count
    start, start_cpu = time.perf_counter(), _cpu_seconds()
    deadline = start + seconds

    def work(index: int) -> None:
        path = directory / f"yardstick-{index}"
        descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        try:
            while time.perf_counter() < deadline:
                os.pwrite(descriptor, block, commits[index] * write_bytes)
                os.fdatasync(descriptor)
                commits[index] += 1
        finally:
            os.close(descriptor)
            path.unlink()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(threads_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Measurement(
        requests=sum(commits),
        payload_bytes=sum(commits) * write_bytes,
        wall_seconds=time.perf_counter() - start,
        cpu_seconds=_cpu_seconds() - start_cpu,
    )


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
