"""LOG-12, LOG-13, LOG-14, LOG-21: whole directories, harmed at random.

The server starts, serves nothing of others, uses no offset twice, and removes nothing.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import TWO_SHARDS
from tests.faults.conftest import recorded_ends
from tests.server_process import ServerProcess

SEEDS_COUNT = int(os.environ.get("DIRECTORY_SEEDS", "5"))
"""Number of harmed copies of a directory in a run."""
TOPICS, PARTITIONS, MESSAGES = 2, 30, 60
SETTINGS = TWO_SHARDS | {
    "SYSTEM_SEGMENT_SIZE": "8 KiB",
    "SYSTEM_PARTITION_TAIL_CACHE_SIZE": "8 KiB",
    "MESSAGE_SAVER_SYNC_INTERVAL": "10 ms",
}


def payload(topic: int, partition: int, number: int) -> bytes:
    """Return a payload of its own for each message, all of the same size."""
    return (b"%d-%d-%d " % (topic, partition, number)).ljust(400, b"x")


@pytest.fixture(scope="module", params=["stopped", "killed"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a server that was stopped or killed, with known messages."""
    server = ServerProcess(tmp_path_factory.mktemp("directories") / "data", SETTINGS).start()
    with RawConnection.as_root(server.address) as root:
        root.ok(Code.CREATE_STREAM, frames.name("s"))
        for topic in range(TOPICS):
            root.ok(Code.CREATE_TOPIC, frames.create_topic("s", f"t{topic}", PARTITIONS))
            for partition in range(PARTITIONS):
                for start in range(0, MESSAGES, 12):
                    batch = [payload(topic, partition, number) for number in range(start, start + 12)]
                    root.send("s", f"t{topic}", partition, *batch)
        eventually("all of it is on the device", lambda: recorded_ends(server) == {MESSAGES}, timeout_seconds=120)
    if request.param == "killed":
        server.kill()
    else:
        server.stop()
    return server.data


def partitions(data: Path) -> list[tuple[int, int, Path]]:
    """Return topic, number and directory of each partition."""
    return [
        (topic, number, data / f"streams/0/topics/{topic}/partitions/{number}")
        for topic in range(TOPICS)
        for number in range(PARTITIONS)
    ]


class Harms:
    """Harm of the directories of one run.

    A log is either exchanged or damaged: its first message identifies it, and where that is damaged it cannot.
    """

    def __init__(self, choice: random.Random) -> None:
        self._choice = choice
        self._exchanged: set[Path] = set()
        self._damaged: set[Path] = set()
        self.done: dict[Path, list[str]] = {}

    def add(self, directory: Path, other: Path) -> None:
        """Harm a directory once, perhaps together with another one."""
        files = sorted(file for file in directory.iterdir() if file.is_file())
        if not files:
            return
        file = self._choice.choice(files)
        theirs = other / file.name
        how = self._choice.choice(["flip", "cut", "zero", "garbage", "delete", "exchange", "exchange all"])
        if how == "exchange all":
            self._exchange_all(directory, other)
        elif how == "exchange" and theirs.exists() and not {file, theirs} & self._damaged:
            mine = file.read_bytes()
            shutil.copyfile(theirs, file)
            theirs.write_bytes(mine)
            self._exchanged |= {file, theirs}
        elif how == "delete":
            file.unlink()
        elif file.stat().st_size and file not in self._exchanged:
            self._damage(file, how)
            self._damaged.add(file)
        else:
            return
        for place in (directory, other):
            self.done.setdefault(place, []).append(f"{how} {file.name}, {directory.name} and {other.name}")

    def _exchange_all(self, directory: Path, other: Path) -> None:
        aside = directory.with_name("aside")
        directory.rename(aside)
        other.rename(directory)
        aside.rename(other)
        places = {directory: other, other: directory}
        for marked in (self._exchanged, self._damaged):
            moved = {places.get(file.parent, file.parent) / file.name for file in marked}
            marked.clear()
            marked.update(moved)

    def _damage(self, file: Path, how: str) -> None:
        choice = self._choice
        with file.open("r+b") as raw:
            start = choice.randrange(file.stat().st_size)
            if how == "cut":
                raw.truncate(start)
                return
            raw.seek(start)
            before = raw.read(1 if how == "flip" else choice.randrange(1, 600))
            raw.seek(start)
            changed = {"flip": bytes([before[0] ^ choice.randrange(1, 256)]), "zero": bytes(len(before))}
            raw.write(changed.get(how) or choice.randbytes(len(before)))


def logs(data: Path) -> list[bytes]:
    """Return the contents of all files with messages, wherever they are."""
    kinds = (".log", ".cut-", ".foreign-")
    files = (path for path in (data / "streams").rglob("*") if path.is_file())
    return [file.read_bytes() for file in files if any(kind in file.name for kind in kinds)]


def removed(before: list[bytes], after: list[bytes]) -> list[bytes]:
    """Return the contents that are neither in a file, nor divided into the beginning of one and another."""
    parts = set(after)

    def is_kept(content: bytes) -> bool:
        return not content or any(
            found.startswith(content) or (content.startswith(found) and content[len(found) :] in parts)
            for found in after
        )

    return [content for content in before if not is_kept(content)]


@pytest.mark.parametrize("number", range(SEEDS_COUNT))
def test_harmed_directories(original: Path, tmp_path: Path, number: int) -> None:
    """TEST_SEED repeats the harms of a run."""
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000)) * SEEDS_COUNT + number
    choice = random.Random(seed)
    data = shutil.copytree(original, tmp_path / "data")
    victims = partitions(data)
    harms = Harms(choice)
    for _, _, directory in victims:
        for _ in range(choice.choice([0, 1, 1, 2])):
            _, _, other = choice.choice(victims)
            if other != directory:
                harms.add(directory, other)
    done = harms.done
    before = logs(data)
    server = ServerProcess(data, SETTINGS).start()
    wrong = []
    try:
        with RawConnection.as_root(server.address) as root:
            for topic, partition, directory in victims:
                wrong += [
                    f"{topic}/{partition}, {done.get(directory)}: {text}" for text in examined(root, topic, partition)
                ]
    finally:
        server.stop()
    again = f"TEST_SEED={seed // SEEDS_COUNT}, number {number}"
    assert not wrong, "\n".join([again, *wrong])
    assert not removed(before, logs(data)), f"{again}: {done}"


def examined(root: RawConnection, topic: int, partition: int) -> Iterator[str]:
    """Check that what is served was stored there, and that no offset is used twice."""
    polls = [frames.poll("s", f"t{topic}", partition, Strategy.OFFSET, offset, 1) for offset in range(MESSAGES)]
    for offset, reply in enumerate(root.requests(Code.POLL_MESSAGES, polls)):
        if reply.status != Status.OK or len(reply.payload) <= 16:
            continue
        found = int.from_bytes(reply.payload[16 + 24 : 16 + 32], "little")
        if reply.payload[16 + 64 :] != payload(topic, partition, found) or found < offset:
            yield f"offset {offset}: got {found}, {reply.payload[16 + 64 : 16 + 80]!r}"
    send = frames.send("s", f"t{topic}", frames.to_partition(partition), [frames.message(b"new")])
    if root.status(Code.SEND_MESSAGES, send) == Status.OK:
        (last,) = root.poll("s", f"t{topic}", partition, Strategy.LAST, count=1).messages
        if (last.offset, last.payload) != (MESSAGES, b"new"):
            yield f"the next message has offset {last.offset}"
