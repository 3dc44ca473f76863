"""SPK-2: staging and commits without Spark, on a real server."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from outputs import payloads, stages_on_disk
from place import Place
from proxy import Proxy
from tests.compatibility.protocol.raw import eventually

from headrace_proto.errors import Status
from headrace_proto.partition import v1
from pyspark_headrace.cluster import node
from pyspark_headrace.cluster.retrying import STATUS_METADATA
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.errors import (
    BatchError,
    FencedError,
    IncompleteError,
    ServerRefusedError,
    StageExpiredError,
    UnreachableError,
)
from pyspark_headrace.options.writing import WriteOptions, write_options
from pyspark_headrace.transactions import stager, staging
from pyspark_headrace.transactions.committing import abort, commit
from pyspark_headrace.transactions.staged import Staged, Transaction
from pyspark_headrace.transactions.staging import Attempt
from pyspark_headrace.write import destination
from pyspark_headrace.write.appending import append
from pyspark_headrace.write.destination import Destination
from pyspark_headrace.write.target import Target, find, find_all

ROWS = 3000
NUMBERS = [str(number).encode() for number in range(ROWS)]


@pytest.fixture
def options(place: Place) -> WriteOptions:
    place.topic("out", 0, 0)
    return write_options(place.options(topic="out", batchBytes="2k", retry_intervalMs="10"), is_stream=True)


def rows(values: list[bytes] = NUMBERS) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(values), 500):
        yield pa.record_batch({"value": pa.array(values[begin : begin + 500], pa.binary())})


def staged(
    options: WriteOptions, batch_id: int, target: Target | None = None, *, query: str = "q", run: str = ""
) -> Staged:
    transaction = Transaction("t", query, batch_id)
    targets = {"out": target} if target is not None else find_all(options)
    return staging.stage(rows(), targets, options, transaction, Attempt(0, 0, run))


def through(target: Target, address: str) -> Target:
    """Return the target with all partitions at another address."""
    parts = tuple(replace(part, address=address) for part in target.topic.partitions)
    return replace(target, topic=replace(target.topic, partitions=parts))


def late(target: Target) -> Target:
    """Return the target with a ticket that nodes refuse like an expired one."""
    return replace(target, ticket=target.ticket[:-4] + "AAAA")


def test_a_batch_is_seen_when_it_is_committed_and_once(place: Place, options: WriteOptions) -> None:
    first = staged(options, 1)
    assert {part.partition_id for part in first.parts} == {0, 1}
    assert (first.rows, sum(part.messages_count for part in first.parts)) == (ROWS, ROWS)
    assert payloads(place) == Counter()
    again = staged(options, 1)
    commit([first, None], 1, options, fence=False, waits=True)
    assert payloads(place) == Counter(NUMBERS)
    commit([again], 1, options, fence=False)
    abort([again], options)
    commit([first], 1, options, fence=False, waits=False)
    with pytest.raises(BatchError, match="staged batch 1, and Spark commits batch 2"):
        commit([again], 2, options, fence=False)
    with pytest.raises(BatchError, match="for 2 batches at once"):
        commit([again, staged(options, 2)], 2, options, fence=False)
    assert payloads(place) == Counter(NUMBERS)


def test_what_a_run_asks_before_it_stages(place: Place, options: WriteOptions) -> None:
    run = uuid.uuid4().hex
    commit([staged(options, 5)], 5, options, fence=False, waits=True)
    for batch_id in (5, 4):
        spared = staged(options, batch_id, run=run)
        assert (spared.is_committed, spared.parts, spared.rows) == (True, (), 0)
        commit([spared], batch_id, options, fence=False)
    others = staged(options, 5, query="other", run=uuid.uuid4().hex)
    assert not others.is_committed
    with pytest.raises(FencedError, match="onCheckpointReset"):
        commit([others], 5, options, fence=False)
    assert not staged(options, 6, run=run).is_committed
    assert payloads(place) == Counter(NUMBERS)


def test_batches_without_rows(place: Place, options: WriteOptions) -> None:
    """Check empty batches: the first one claims the name, later ones are not committed."""

    def empty(query: str, batch_id: int) -> Staged:
        return staging.stage(rows([]), find_all(options), options, Transaction("t", query, batch_id), Attempt(0, 0, ""))

    commit([empty("q", 0)], 0, options, fence=False)
    with pytest.raises(FencedError):
        commit([empty("other", 0)], 0, options, fence=False)
    commit([empty("other", 1)], 1, options, fence=False)
    commit([], 0, options, fence=False)
    abort([empty("q", 1)], options)
    commit([staged(options, 3, query="other")], 3, options, fence=True, waits=True)
    with pytest.raises(FencedError):
        commit([staged(options, 1)], 1, options, fence=False)
    assert payloads(place) == Counter(NUMBERS)


class Altered:
    """Fake call with a response about other data."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def result(self, timeout: float) -> v1.StageResponse:
        answer = self._call.result(timeout)
        return v1.StageResponse(
            stage_id=answer.stage_id, messages_count=answer.messages_count, digest=answer.digest ^ 1
        )


def test_something_else_was_stored(options: WriteOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stager, "stage", lambda *given: Altered(node.stage(*given)))
    with pytest.raises(IncompleteError, match="or others were stored"):
        staged(options, 1)


def test_what_is_given_up_goes(place: Place, options: WriteOptions) -> None:
    given_up = staged(options, 1)
    assert stages_on_disk(place)
    abort([given_up, None], options)
    with pytest.raises(ServerRefusedError, match="given up"):
        commit([given_up], 1, options, fence=False)
    eventually("the files of stages go", lambda: not stages_on_disk(place))
    # No server is reachable, and no error is raised: Spark reports the original error.
    abort([staged(options, 2)], replace(options, servers=("127.0.0.1:1",), retry_max=0))


def test_stages_that_are_too_old(place: Place, options: WriteOptions) -> None:
    old = staged(replace(options, stage_lifetime_ms=5000), 1)
    until_micros = int.from_bytes(old.parts[0].stage_id[:8], "big")
    eventually("the end of the stage", lambda: time.time_ns() // 1000 > until_micros)
    with pytest.raises(StageExpiredError, match="stageLifetime"):
        commit([old], 1, options, fence=False)
    assert payloads(place) == Counter()


@pytest.mark.parametrize("keeps", [True, False])
def test_a_connection_that_breaks(
    place: Place, options: WriteOptions, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    """Check that buffered batches are resent; above the buffer limit Spark repeats the task."""
    if not keeps:
        monkeypatch.setattr(staging, "_KEPT_BYTES", 0)
    target = find_all(options)["out"]
    with Proxy(target.topic.partitions[0].address) as proxy:
        far = through(target, proxy.address)

        def broken() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(rows()):
                if number == 3:
                    proxy.cut()
                yield batch

        transaction = Transaction("t", "q", 1)
        if keeps:
            message = staging.stage(broken(), {"out": far}, options, transaction, Attempt(0, 0, ""))
            commit([message], 1, options, fence=False, waits=True)
            assert payloads(place) == Counter(NUMBERS)
        else:
            with pytest.raises(UnreachableError):
                staging.stage(broken(), {"out": far}, options, transaction, Attempt(0, 0, ""))
            assert payloads(place) == Counter()


def test_more_than_is_kept(place: Place, options: WriteOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_KEPT_BYTES", 8 << 10)
    commit([staged(replace(options, max_in_flight=1), 1)], 1, options, fence=False, waits=True)
    assert payloads(place) == Counter(NUMBERS)


def test_a_ticket_that_is_over(place: Place, options: WriteOptions, tmp_path: Path) -> None:
    """Check an expired ticket, as after a restart of an embedded server, whose tickets are valid for one process."""
    target = late(find_all(options)["out"])
    commit([staged(options, 1, target)], 1, options, fence=False, waits=True)
    assert payloads(place) == Counter(NUMBERS)
    # The first gateway is down.
    more = replace(options, servers=("127.0.0.1:1", *options.servers))
    commit([staged(more, 2, target)], 2, options, fence=False, waits=True)
    assert payloads(place) == Counter(2 * NUMBERS)
    (tmp_path / "password").write_text("")
    anonymous = replace(options, password_env=None, password_file=str(tmp_path / "password"))
    with pytest.raises(ServerRefusedError, match="only where the token or password"):
        staged(anonymous, 3, target)


def test_gateways_that_do_not_answer_for_a_moment(
    place: Place, options: WriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a ticket that could not be renewed is renewed later, and that a new one is refused only once."""
    found = find_all(options)["out"]
    failures = [UnreachableError("no server answers")]

    def fails_once(options: WriteOptions, name: str) -> Target:
        if failures:
            raise failures.pop()
        return find(options, name)

    monkeypatch.setattr(destination, "find", fails_once)
    commit([staged(options, 1, late(found))], 1, options, fence=False, waits=True)
    assert payloads(place) == Counter(NUMBERS)
    assert not failures
    monkeypatch.setattr(destination, "find", lambda *_: late(found))
    with pytest.raises(ServerRefusedError, match="UNAUTHENTICATED"):
        staged(options, 2, late(found))


class Expired(grpc.RpcError):
    """Error of a call with an expired ticket."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAUTHENTICATED

    def details(self) -> str:
        return "the ticket has expired"

    def trailing_metadata(self) -> Any:
        return ((STATUS_METADATA, str(int(Status.INVALID_TICKET))),)


def test_a_ticket_that_is_over_again(options: WriteOptions) -> None:
    """Check a task that outlasts several tickets."""
    leader = Destination(find_all(options)["out"], 0, options)
    for _ in range(2):
        leader.failed(Expired())
        leader.progressed()
    leader.failed(Expired())
    with pytest.raises(ServerRefusedError, match="the ticket has expired"):
        leader.failed(Expired())


def test_a_partition_that_is_deleted(options: WriteOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_all(options)["out"]
    less = replace(found, topic=replace(found.topic, partitions=found.topic.partitions[:1]))
    monkeypatch.setattr(destination, "find", lambda *_: less)
    with pytest.raises(ServerRefusedError, match="partition 1: the partition no longer exists"):
        staged(options, 1, late(found))


def test_a_leader_that_falls_silent(place: Place, options: WriteOptions) -> None:
    """Check a machine without power: no connection to it breaks, and its partitions are soon on another one."""
    found = find_all(options)["out"]
    hasty = replace(options, append_timeout_ms=500, retry_max=12)
    with Proxy(found.topic.partitions[0].address) as proxy:
        far = through(found, proxy.address)
        # A connection that is not complete would end with an error.
        grpc.channel_ready_future(runtime().node(proxy.address, hasty)).result(30)
        proxy.may_forward.clear()
        commit([staged(hasty, 1, far)], 1, options, fence=False, waits=True)
        assert payloads(place) == Counter(NUMBERS)
        append(rows(), {"out": far}, hasty, task=0)
        # Once by the commit, and by the append once or, if the silent leader had received a batch, twice.
        twice = payloads(place)
        assert twice.keys() == set(NUMBERS)
        assert min(twice.values()) >= 2
