"""TLS handshakes at the maximum rate, in a process of its own: `python -m tests.performance.loads.handshakes`."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

THREADS = 4


@contextmanager
def hammering(address: str) -> Generator[list[float]]:
    """Do handshakes with `address` during a ``with`` block; the list then contains the rate per second."""
    rate: list[float] = []
    command = [sys.executable, "-m", "tests.performance.loads.handshakes", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "shaking"
        yield rate
        said, _ = process.communicate("", timeout=30)
        rate.append(float(said))


def main(address: str) -> None:
    """Do handshakes until the standard input ends, and print the rate."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    over = threading.Event()
    counts = [0] * THREADS

    def shake(index: int) -> None:
        while not over.is_set():
            # Sessions are not resumed: each handshake costs the server a signature.
            with (
                socket.create_connection((host, int(port)), 10) as connection,
                context.wrap_socket(connection),
            ):
                counts[index] += 1

    threads = [threading.Thread(target=shake, args=(index,)) for index in range(THREADS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    sys.stdout.write("shaking\n")
    sys.stdout.flush()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(f"{sum(counts) / (time.perf_counter() - begin)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
