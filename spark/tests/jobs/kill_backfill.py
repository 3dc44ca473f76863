"""Kills a backfill (SIGKILL) at random times and resumes it repeatedly; then compares the topics.

``python spark/tests/jobs/kill_backfill.py [--kills 10] [--messages 200000] [--seed N]``
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

# Same module path as in pytest: the directories of tests, and the repository.
sys.path.insert(0, str(Path(__file__).parents[3]))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from place import PASSWORD_VARIABLE, Place
from replays import arguments
from tests.server_process import PASSWORD, ServerProcess

from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.options.connection import ConnectionOptions
from pyspark_headrace.options.parsing import parse

PROGRAM = (sys.executable, "-m", "pyspark_headrace.jobs.main", "backfill")
_WAIT_SECONDS = 240.0


def kill_and_resume(place: Place, directory: Path, *, kills: int, more: Sequence[str], seed: int) -> list[float]:
    """Run a backfill and kill it a number of times; then run it and request a stop.

    Returns:
        Lifetimes of the killed processes.
    """
    chance = random.Random(seed)
    lived: list[float] = []
    for attempt in range(kills + 1):
        log = directory / f"{attempt}.log"
        # The process dies while writing batches, or, with some probability, during start-up.
        is_early = attempt < kills and chance.random() < 0.2
        before = end_of(place)
        begun = time.monotonic()
        process = started(place, directory, more, log)
        try:
            while process.poll() is None and not is_early and end_of(place) == before:
                assert time.monotonic() < begun + _WAIT_SECONDS, log.read_text()[-4000:]
                time.sleep(0.02)
            if attempt < kills:
                time.sleep(chance.uniform(0, 6.0 if is_early else 0.7))
                process.kill()
                process.wait()
                lived.append(round(time.monotonic() - begun, 2))
            else:
                process.send_signal(signal.SIGTERM)
                assert ended(process, log) == "stopped", log.read_text()[-4000:]
        finally:
            process.kill()
            process.wait()
    return lived


def ended(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for the successful end of a process; returns the status of its report."""
    assert process.wait(_WAIT_SECONDS) == 0, log.read_text()[-4000:]
    status: str = json.loads(log.with_suffix(".report").read_text())["status"]
    return status


def started(place: Place, directory: Path, more: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process of the program, with its report in one file and all other output in another."""
    given = arguments(place, directory / "checkpoint", *more, "--resume")
    with log.open("wb") as output, log.with_suffix(".report").open("wb") as report:
        return subprocess.Popen([*PROGRAM, *given], stdout=report, stderr=output, env=environment())


def environment() -> dict[str, str]:
    """Environment for processes of the program."""
    return {**os.environ, PASSWORD_VARIABLE: PASSWORD, "SPARK_MASTER": "local[2]"}


def end_of(place: Place) -> int:
    """Number of readable messages in the target topic."""
    options = place.options()
    stream = options.pop("stream")
    gateway = Gateway(parse(ConnectionOptions, options))
    return sum(part.messages_count for part in gateway.describe(stream, ("b",)).topics["b"].partitions)


def differences(place: Place) -> list[str]:
    """Return the differences between the topics, which must have the same messages in the same order in every
    partition.
    """
    found = []
    client = place.connected()
    for partition in range(len(client.topic(place.stream, "a").partitions)):
        offset = 0
        while True:
            one, two = (
                [
                    message.payload
                    for message in client.poll(
                        place.stream, topic, partition, strategy="offset", value=offset, count=10_000
                    ).messages
                ]
                for topic in "ab"
            )
            if one != two:
                found.append(f"partition {partition}, from offset {offset}: {len(one)} and {len(two)} messages")
                break
            if not one:
                break
            offset += len(one)
    client.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    asked = parser.parse_args()
    os.environ[PASSWORD_VARIABLE] = PASSWORD
    total = asked.messages // 4 * 4
    with (
        tempfile.TemporaryDirectory() as name,
        ServerProcess(Path(name) / "data") as server,
        Place(server, "killed") as place,
    ):
        place.topic("a", *[total // 4] * 4)
        place.topic("b", 0, 0, 0, 0)
        size = max(total // (4 * asked.kills), 1)
        more = ("--batch-messages", str(size), "--rate", f"{size}/s")
        lived = kill_and_resume(place, Path(name), kills=asked.kills, more=more, seed=asked.seed)
        last = Path(name) / "last.log"
        assert ended(started(place, Path(name), more, last), last) == "done"
        found = differences(place)
        sys.stdout.write(f"seed {asked.seed}: killed after {lived} s; {end_of(place)} messages of {total}\n")
    sys.stdout.write(("\n".join(found) or "the same messages in the same order") + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
