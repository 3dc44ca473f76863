"""Consumer and producer processes for tests of consumer groups under churn, and the checks of the received messages.

A *receipt* is a message delivered to the official client's callback, with a time of the clock that all processes share.
A *generation* of a partition lasts from one change of its owner to the next. A client does not report the generation of
a message, so the checks infer it from times: two members may both receive a message only if the first member, or the
server that had delivered the message to it, had stopped before the second member received it.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import group_details
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection
from tests.server_process import PASSWORD, USERNAME


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message delivered to a consumer."""

    at_ns: int
    partition: int
    offset: int
    consumer: int


class Consumer:
    """A consumer process with the official client."""

    def __init__(
        self,
        number: int,
        address: str,
        stream: str,
        group: str,
        directory: Path,
        account: tuple[str, str] = (USERNAME, PASSWORD),
    ) -> None:
        self.number = number
        self.group = group
        self.record = directory / f"consumer-{number}.txt"
        self.stopped_at_ns: int | None = None
        module = "tests.compatibility.groups.consumer"
        command = [sys.executable, "-m", module, address, stream, group, str(self.record), *account]
        self._process = subprocess.Popen(command, process_group=0)

    @property
    def is_alive(self) -> bool:
        """Return whether the process runs and was not asked to end. A process ends by itself if its client fails."""
        if self._process.poll() is not None and self.stopped_at_ns is None:
            self.stopped_at_ns = time.monotonic_ns()
        return self.stopped_at_ns is None

    def end(self, *, kill: bool) -> None:
        """Ask the process to stop, or kill it."""
        if not self.is_alive:
            return
        self.stopped_at_ns = time.monotonic_ns()
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        status = self._process.wait(60)
        # SIGTERM kills a process that has not installed its signal handler yet.
        assert kill or status in (0, -signal.SIGTERM), f"consumer {self.number} ended with status {status}"

    def receipts(self) -> list[Receipt]:
        """Return the received messages in order."""
        if not self.record.exists():
            return []
        lines = self.record.read_text(encoding="ascii").splitlines()
        return [Receipt(*(int(field) for field in line.split()), consumer=self.number) for line in lines]


class Producer:
    """Send to all partitions on a thread of its own until `stop`, across restarts of the server."""

    def __init__(self, address: str, stream: str, partitions: int, seed: int) -> None:
        self.acknowledged = dict.fromkeys(range(partitions), 0)
        self.batches = 0
        self.lost_connections = 0
        self._address = address
        self._stream = stream
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with RawConnection.as_root(self._address) as connection:
                    while not self._stop.wait(0.002):
                        self._send(connection)
            except (OSError, ConnectionClosed):
                # The batch in flight may be stored or not; it is not sent again.
                self.lost_connections += 1
                self._stop.wait(0.05)

    def _send(self, connection: RawConnection) -> None:
        partition = self._random.randrange(len(self.acknowledged))
        payloads = [b"m"] * self._random.randint(1, 10)
        connection.send(self._stream, "t", partition, *payloads)
        self.acknowledged[partition] += len(payloads)
        self.batches += 1


def ends(connection: RawConnection, stream: str, partitions: int) -> dict[int, int]:
    """Return the number of messages in each partition."""
    found = {}
    for partition in range(partitions):
        polled = connection.poll(stream, "t", partition, Strategy.LAST, count=1)
        found[partition] = polled.offsets[-1] + 1 if polled.messages else 0
    return found


def check_receipts(
    receipts: Sequence[Receipt],
    counts: Mapping[int, int],
    stopped_at_ns: Mapping[int, int],
    server_starts_ns: Sequence[int] = (),
) -> None:
    """Check what the consumers of one group received, in order of time.

    Every message was received, and none before its predecessors. If two consumers received the same message, the first
    of them, or the server that had delivered it, had stopped before the second received it.

    The server notices a closed connection at once, but the test notices the end of a process a little later. So a
    consumer counts as stopped once it was asked to end and has received its last message. A client may
    still deliver messages from a killed server until the next server starts.
    """
    final = {receipt.consumer: receipt for receipt in receipts}
    last: dict[tuple[int, int], Receipt] = {}
    next_offset = dict.fromkeys(counts, 0)
    for receipt in receipts:
        place = (receipt.partition, receipt.offset)
        assert receipt.offset <= next_offset[receipt.partition], f"{place} came before those in front of it"
        next_offset[receipt.partition] = max(next_offset[receipt.partition], receipt.offset + 1)
        earlier = last.get(place)
        if earlier is not None and earlier.consumer != receipt.consumer:
            was_gone = max(stopped_at_ns[earlier.consumer], final[earlier.consumer].at_ns) < receipt.at_ns
            other_server = any(earlier.at_ns < start <= receipt.at_ns for start in server_starts_ns)
            assert was_gone or other_server, f"{earlier} and {receipt}, both members"
        last[place] = receipt
    assert next_offset == counts, "the last ones are missing"


def assignment(connection: RawConnection, stream: str, group: str) -> dict[int, list[int]]:
    """Return the partitions that each member of a group owns."""
    path = frames.ident(stream) + frames.ident("t") + frames.ident(group)
    return group_details(connection.ok(Code.GET_CONSUMER_GROUP, path))[1]
