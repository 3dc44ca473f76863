"""A whole run: a cluster, producers, supervised queries, kills, and the check of the results."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace_core import Client
from tests.cluster import Cluster, Settings
from tests.faults.cluster.load import Way
from tests.faults.spark.driver import Driver
from tests.faults.spark.kill_times import Checkpoint, Moments
from tests.faults.spark.producers import PARTITIONS_COUNT, Producer
from tests.faults.spark.results import (
    Verdict,
    committed_files,
    judge_files,
    judge_input,
    judge_topic,
    read_files,
    read_topic,
)
from tests.faults.spark.victims import NoVictim, Victims, deck
from tests.faults.workload import join_all
from tests.server_process import PASSWORD, USERNAME

QUERIES: Final = ("files", "topic")
PRODUCERS_COUNT: Final = 2
OUT_PARTITIONS_COUNT: Final = 2
_WORKS_SECONDS_MAX: Final = 240.0
"""Timeout from the start of a driver to its first micro-batch, on an overloaded machine."""
_AT_ONCE_SHARE: Final = 0.15
"""Share of the kills that do not wait until the queries work again."""
_ABSENCES_MAX: Final = 10
_DRAIN_SECONDS_MAX: Final = 900.0
_SETTLE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_BAD_WORDS: Final = ("panicked at", "Traceback (most recent call last)")
_NODE: Settings = {"durability": "fsync"}


def run(directory: Path, *, kills: int, seed: int, say: Callable[[str], object]) -> Verdict:
    """Kill `kills` times and check what became of every message.

    Args:
        directory: Empty directory for all files.
        kills: Number of kills.
        seed: Seed of victims, times and producers; timing still differs from run to run.
        say: Called with a line for each kill.
    """
    verdict = Verdict(seed)
    began = time.monotonic()
    numbers = random.Random(seed)
    cluster = Cluster(directory, node_settings=_NODE)
    driver: Driver | None = None
    try:
        cluster.start()
        stream = _topics(cluster)
        listeners = [gateway.listeners for gateway in cluster.gateways]
        driver = Driver(directory, [listener.grpc for listener in listeners], stream, random.Random(f"{seed} driver"))
        ways = [
            Way([listener.tcp for listener in listeners[turn % 2 :] + listeners[: turn % 2]])
            for turn in range(PRODUCERS_COUNT)
        ]
        producers = [Producer(number, way, stream, seed=seed) for number, way in enumerate(ways)]
        checkpoints = {name: Checkpoint(directory / "checkpoints" / name) for name in QUERIES}
        driver.start()
        for way, producer in zip(ways, producers, strict=True):
            way.open()
            producer.start()
        _kill_all(kills, numbers, Victims(cluster, driver, numbers), driver, checkpoints, verdict, say)
        for way in ways:
            way.finish()
        join_all([*producers])
        _judge(cluster, driver, stream, producers, checkpoints, verdict, say)
        driver.stop()
        cluster.stop()
        _judge_logs(cluster, verdict)
    finally:
        if driver is not None:
            driver.stop()
            verdict.driver_starts, verdict.driver_ends = driver.starts, driver.ends
            verdict.failures, verdict.shuffles = driver.failures, driver.shuffles
        cluster.kill()
        verdict.seconds = time.monotonic() - began
    return verdict


def _topics(cluster: Cluster) -> str:
    """Create both topics, repeatedly until each node has partitions of each; return the name of their stream."""
    client = Client.connect(cluster.gateways[0].listeners.tcp)
    client.login(USERNAME, PASSWORD)
    try:
        for attempt in range(50):
            stream = client.create_stream(f"kills {attempt}")
            made = [
                client.create_topic(stream.id, "in", PARTITIONS_COUNT).id,
                client.create_topic(stream.id, "out", OUT_PARTITIONS_COUNT).id,
            ]
            if all(len(_holders(cluster, stream.id, topic)) == len(cluster.nodes) for topic in made):
                return stream.name
    finally:
        client.close()
    raise AssertionError("one node gets everything")


def _holders(cluster: Cluster, stream_id: int, topic_id: int) -> set[int]:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        for topic in cluster.state().catalog.topic_placements:
            if (topic.stream_id, topic.topic_id) == (stream_id, topic_id):
                return {partition.node_ids[0] for partition in topic.partitions}
        time.sleep(_POLL_SECONDS)
    raise AssertionError("the topic is not placed")


def _kill_all(
    kills: int,
    numbers: random.Random,
    victims: Victims,
    driver: Driver,
    checkpoints: dict[str, Checkpoint],
    verdict: Verdict,
    say: Callable[[str], object],
) -> None:
    moments = Moments(checkpoints, numbers)
    _wait_working(driver, checkpoints)
    cards = deque(deck(kills, numbers))
    absences = 0
    while cards:
        verdict.problems += victims.ended_by_themselves()
        if verdict.problems:
            return
        is_at_once = numbers.random() < _AT_ONCE_SHARE
        if not is_at_once:
            _wait_working(driver, checkpoints)
        moment = moments.next()
        is_within = any(checkpoint.is_within() for checkpoint in checkpoints.values())
        kind = cards.popleft()
        try:
            victim = victims.kill(kind)
        except NoVictim as anonymous:
            say(f"there is no {anonymous} to be killed")
            cards.append(kind)
            absences += 1
            if absences > _ABSENCES_MAX:
                verdict.problems.append(f"repeatedly, there is no process to kill: {driver.directory}")
            continue
        verdict.kills[kind] += 1
        verdict.victims[victim] += 1
        verdict.moments[" ".join(word for word in moment.split() if not word.isdigit())] += 1
        verdict.kills_within += is_within
        say(f"{verdict.kills.total()}: {victim}, {moment}")


def _wait_working(driver: Driver, checkpoints: dict[str, Checkpoint]) -> None:
    """Wait until each query has committed or begun a micro-batch since the last start of the driver."""
    deadline = time.monotonic() + _WORKS_SECONDS_MAX
    while time.monotonic() < deadline:
        lasts = [checkpoint.last() for checkpoint in checkpoints.values()]
        if driver.starts and all(last is not None and last.begun_at > driver.started_at for last in lasts):
            return
        time.sleep(_POLL_SECONDS)


def _judge(
    cluster: Cluster,
    driver: Driver,
    stream: str,
    producers: list[Producer],
    checkpoints: dict[str, Checkpoint],
    verdict: Verdict,
    say: Callable[[str], object],
) -> None:
    cluster.start()
    listener = cluster.gateways[0].listeners.tcp
    messages = read_topic(listener, stream, "in")
    judge_input(messages, producers, verdict)
    say(f"{len(messages)} messages; the queries read what is left of them")
    ends = dict.fromkeys(range(PARTITIONS_COUNT), 0)
    for partition, offset in messages:
        ends[partition] = max(ends[partition], offset + 1)
    for name, checkpoint in checkpoints.items():
        if not _within(_DRAIN_SECONDS_MAX, lambda checkpoint=checkpoint: checkpoint.ends(f"{stream}/in") == ends):
            verdict.problems.append(f"{name} stands at {checkpoint.ends(f'{stream}/in')}, the input ends at {ends}")
        verdict.batches[name] = checkpoint.count()
    driver.stop()
    files = committed_files(driver.directory / "files")
    verdict.files = len(files)
    judge_files(messages, read_files(files), verdict)
    # Committed messages become readable a moment later.
    _within(_SETTLE_SECONDS, lambda: len(read_topic(listener, stream, "out")) >= len(messages))
    judge_topic(messages, read_topic(listener, stream, "out"), verdict)


def _judge_logs(cluster: Cluster, verdict: Verdict) -> None:
    for service in cluster.services:
        text = service.log_text()
        verdict.problems += [f"{service.name} has written {word}: {service.log}" for word in _BAD_WORDS if word in text]


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
