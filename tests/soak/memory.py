"""Mixed load on a server with little memory: `python -m tests.soak.memory --seconds 300`.

Producers send batches of 100 B to 8 MB to many partitions. Consumers read from the end and from the beginning, some of
them slowly. The exit status is 1 if a request was not answered in time or if resident memory keeps growing.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection
from tests.server_process import ServerProcess

ANSWER_SECONDS_MAX: Final = 60.0
"""Timeout of a request; a longer one counts as hanging."""
SIZES: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 8_000_000)
_LARGE_FROM: Final = 100_000
_LARGE_PARTITIONS: Final = 40
"""Number of partitions that receive large batches, limited so that their segments fit on the disk."""
_KEPT_BYTES: Final = 64_000_000
"""Approximate bytes that large batches leave in a partition."""
_GROWTH_FACTOR: Final = 1.1
_GROWTH_BYTES: Final = 48 * 1024**2
"""Tolerated growth: the allocator's own memory and Python's counters."""
_SLOW_BYTES: Final = 64 * 1024
_SLOW_PAUSE_SECONDS: Final = 0.05


@dataclass
class Load:
    """Load on a server, and its results."""

    address: str
    partitions: int
    seed: int
    bytes_per_second: float = 40e6
    sent_bytes: int = 0
    sent: int = 0
    polled: int = 0
    slowest_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    _ends: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, seconds: float, *, watch: Callable[[], None] = lambda: None) -> None:
        """Run the load and call ``watch`` twice a second."""
        with RawConnection.as_root(self.address) as connection:
            connection.create_topic("load", partitions=self.partitions)
        roles = [*[self._produce] * 6, *[self._consume] * 2, *[self._consume_slowly] * 4]
        threads = [threading.Thread(target=self._guarded, args=(role, index)) for index, role in enumerate(roles)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.problems:
            watch()
            time.sleep(0.5)
        self._ends.set()
        for thread in threads:
            thread.join()

    def _guarded(self, role: Callable[[RawConnection, random.Random], None], index: int) -> None:
        name = f"{role.__name__.strip('_')} {index}"
        try:
            with RawConnection.as_root(self.address) as connection:
                connection.socket.settimeout(ANSWER_SECONDS_MAX)
                role(connection, random.Random(self.seed * 100 + index))
        except TimeoutError:
            self.problems.append(f"{name}: no answer within {ANSWER_SECONDS_MAX:g} s")
        except (ConnectionClosed, OSError, AssertionError) as error:
            self.problems.append(f"{name}: {error!r}")

    def _timed(self, began: float) -> None:
        with self._lock:
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)

    def _produce(self, connection: RawConnection, chance: random.Random) -> None:
        appended = dict.fromkeys(range(self.partitions), 0)
        began = time.monotonic()
        mine = 0
        while not self._ends.is_set():
            size = chance.choice(SIZES)
            partitions = min(_LARGE_PARTITIONS, self.partitions) if size >= _LARGE_FROM else self.partitions
            partition = chance.randrange(partitions)
            asked = time.monotonic()
            connection.send("load", "t", partition, bytes(size))
            self._timed(asked)
            with self._lock:
                self.sent += 1
                self.sent_bytes += size
            mine += size
            appended[partition] += size
            if appended[partition] > _KEPT_BYTES:
                appended[partition] = 0
                connection.ok(Code.DELETE_SEGMENTS, _delete_segments(partition))
            ahead = mine / (self.bytes_per_second / 6) - (time.monotonic() - began)
            self._ends.wait(max(0.0, min(ahead, 1.0)))

    def _consume(self, connection: RawConnection, chance: random.Random) -> None:
        while not self._ends.is_set():
            partition = chance.randrange(self.partitions)
            strategy = chance.choice((Strategy.FIRST, Strategy.LAST, Strategy.NEXT))
            asked = time.monotonic()
            found = connection.poll("load", "t", partition, strategy, count=chance.choice((1, 10)), auto_commit=True)
            self._timed(asked)
            with self._lock:
                self.polled += len(found.messages)

    def _consume_slowly(self, connection: RawConnection, chance: random.Random) -> None:
        while not self._ends.is_set():
            partition = chance.randrange(min(_LARGE_PARTITIONS, self.partitions))
            asked = time.monotonic()
            connection.send_frame(Code.POLL_MESSAGES, frames.poll("load", "t", partition, Strategy.FIRST, 0, 10))
            header = _received(connection, 8)
            self._timed(asked)
            assert header[:4] == bytes(4), f"status {int.from_bytes(header[:4], 'little')}"
            left = int.from_bytes(header[4:], "little")
            while left:
                left -= len(_received(connection, min(left, _SLOW_BYTES)))
                if not self._ends.is_set():
                    time.sleep(_SLOW_PAUSE_SECONDS)
            with self._lock:
                self.polled += 1


def _received(connection: RawConnection, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.socket.recv(count - len(parts))
        assert part, "the server has closed the connection"
        parts += part
    return bytes(parts)


def _delete_segments(partition: int) -> bytes:
    return frames.ident("load") + frames.ident("t") + frames.u32(partition) + frames.u32(1000)


def growth(samples: Sequence[int]) -> str:
    """Describe how resident memory kept growing in the last third; empty if it did not."""
    third = len(samples) // 3
    if third == 0:
        return ""
    before, last = max(samples[third : 2 * third]), max(samples[2 * third :])
    if last <= before * _GROWTH_FACTOR + _GROWTH_BYTES:
        return ""
    return f"resident memory was at most {before >> 20} MiB in the second third and {last >> 20} MiB in the last"


def main() -> int:
    """Run the load on a new server."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.memory", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long it goes on (120)")
    parser.add_argument("--seed", type=int, default=1, help="repeats sizes and partitions (1)")
    parser.add_argument("--partitions", type=int, default=1000, help="of the topic (1000)")
    parser.add_argument("--pool", default="512 MiB", help="what buffers may hold (512 MiB)")
    options = parser.parse_args()
    samples: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        settings = {
            "SYSTEM_MEMORY_POOL_SIZE": options.pool,
            "SYSTEM_MEMORY_POOL_SMALL": "true",
            "SYSTEM_SEGMENT_SIZE": "16 MiB",
            "SYSTEM_SHARDING_CPU_ALLOCATION": "2",
        }
        with ServerProcess(Path(directory) / "data", settings) as server:
            load = Load(server.address, options.partitions, options.seed)
            began = time.monotonic()

            def watch() -> None:
                samples.append(server.memory_bytes())
                if len(samples) % 20 == 1:
                    sys.stdout.write(
                        f"{time.monotonic() - began:7.1f} s  resident {samples[-1] >> 20} MiB, "
                        f"sent {load.sent} batches of {load.sent_bytes >> 20} MiB, polled {load.polled}, "
                        f"slowest answer {load.slowest_seconds:.2f} s\n"
                    )
                    sys.stdout.flush()

            load.run(options.seconds, watch=watch)
    problems = [*load.problems, *filter(None, [growth(samples)])]
    sys.stdout.write("".join(f"FAILED: {problem}\n" for problem in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
