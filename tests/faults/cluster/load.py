"""Clients at both gateways, each on one partition, that record lost connections and slow requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace_core import Client, ServerError
from headrace_proto.errors import Status
from tests.faults.workload import PARTITIONS_COUNT, Consumer, Gate, Librarian, Producer, Worker

LOOK_AROUND_SECONDS = 0.05


class Way(Gate):
    """Gateway addresses of one client: after a lost connection the client tries the next gateway."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__(addresses[0])
        self._addresses = list(addresses)
        self.losses = 0
        """Number of lost connections and failed connects."""

    def leave(self) -> None:
        super().leave()
        if not self.is_finished:
            self.losses += 1
            self._addresses.append(self._addresses.pop(0))
            self.address = self._addresses[0]


class Watched:
    """Durations of a worker's steps, and the number of refusals that ask for a retry."""

    def __init__(self) -> None:
        self.steps = 0
        self.slowest_seconds = 0.0
        self.refusals = 0
        self._since: float | None = None

    @contextmanager
    def step(self) -> Iterator[None]:
        """Measure one step; count a refusal that asks for a retry."""
        self._since = time.monotonic()
        try:
            yield
        except ServerError as error:
            if error.code != Status.PARTITION_UNAVAILABLE:
                raise
            self.refusals += 1
        finally:
            self.slowest_seconds = max(self.slowest_seconds, self.running_seconds)
            self._since = None
        self.steps += 1

    @property
    def running_seconds(self) -> float:
        """Return the duration of the unfinished step."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def begin(self) -> None:
        """Begin a new phase and forget earlier durations."""
        self.slowest_seconds, self.steps = 0.0, 0
        if self._since is not None:
            self._since = time.monotonic()


class ClusterProducer(Producer):
    """A producer; refused batches were not stored."""

    def __init__(self, number: int, way: Way, *, seed: int, partition: int | None) -> None:
        super().__init__(number, way, seed=seed, partition=partition)
        self.way = way
        self.watched = Watched()

    def work(self, client: Client) -> None:
        with self.watched.step():
            try:
                super().work(client)
            except ServerError:
                self.unanswered.pop()
                raise


class ClusterConsumer(Consumer):
    """A consumer that stores its offsets at the node."""

    def __init__(self, number: int, way: Way, *, seed: int, partition: int, auto_commit: bool) -> None:
        super().__init__(number, way, seed=seed, partition=partition, auto_commit=auto_commit)
        self.way = way
        self.watched = Watched()

    def work(self, client: Client) -> None:
        with self.watched.step():
            super().work(client)


class ClusterLibrarian(Librarian):
    """A worker that changes the catalog and so checks the availability of the metadata service."""

    def __init__(self, way: Way, *, seed: int) -> None:
        super().__init__(way, seed=seed)
        self.way = way
        self.watched = Watched()

    def work(self, client: Client) -> None:
        with self.watched.step():
            super().work(client)


AnyWorker = ClusterProducer | ClusterConsumer | ClusterLibrarian


class ClusterLoad:
    """All clients of a run: a producer and a consumer for each partition, at one gateway each."""

    def __init__(self, addresses: Sequence[str], seed: int) -> None:
        self._addresses = list(addresses)
        self.producers = [
            ClusterProducer(number, self._way(number), seed=seed, partition=number)
            for number in range(PARTITIONS_COUNT)
        ]
        self.consumers = [
            ClusterConsumer(
                number, self._way(number), seed=seed, partition=number % PARTITIONS_COUNT, auto_commit=number % 2 == 0
            )
            for number in range(1, PARTITIONS_COUNT + 1)
        ]
        self.librarian = ClusterLibrarian(self._way(0), seed=seed)

    @property
    def workers(self) -> list[AnyWorker]:
        """Return all workers."""
        return [*self.producers, *self.consumers, self.librarian]

    def of_partitions(self, partitions: set[int]) -> list[ClusterProducer | ClusterConsumer]:
        """Return the workers of these partitions."""
        producers = [producer for producer in self.producers if producer.number in partitions]
        return [*producers, *(consumer for consumer in self.consumers if consumer.partition in partitions)]

    def start(self) -> None:
        """Start all workers."""
        for worker in self.workers:
            worker.way.open()
            worker.start()

    def begin_phase(self) -> None:
        """Begin a new phase: forget earlier durations."""
        for worker in self.workers:
            worker.watched.begin()

    def pass_by(self, seconds: float) -> None:
        """Let the clients work for a while; raise the failure of any of them."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check_alive()
            time.sleep(LOOK_AROUND_SECONDS)

    def until_all_work(self, workers: Sequence[Worker] | None = None, *, seconds: float = 60.0) -> None:
        """Wait until each worker has completed a step since the phase began."""
        deadline = time.monotonic() + seconds
        waiting = list(self.workers if workers is None else workers)
        while waiting := [worker for worker in waiting if worker.watched.steps == 0]:
            self.check_alive()
            assert time.monotonic() < deadline, f"they stand still: {[worker.name for worker in waiting]}"
            time.sleep(LOOK_AROUND_SECONDS)

    def check_alive(self) -> None:
        """Raise the failure of any client at once."""
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure

    def finish(self) -> None:
        """Stop all workers and wait for their end."""
        for worker in self.workers:
            worker.way.finish()
        for worker in self.workers:
            worker.join(60)
            assert not worker.is_alive(), f"{worker.name} does not end"
        self.check_alive()

    def _way(self, number: int) -> Way:
        turn = number % len(self._addresses)
        return Way(self._addresses[turn:] + self._addresses[:turn])
