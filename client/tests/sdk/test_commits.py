"""Offsets that are stored: each call that stores them waits for them, also if an earlier one has begun that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import headrace
import headrace.aio.awaited.consumer
import headrace.sdk.blocking.consumer
from headrace.aio.consumer import Consumer as AwaitedConsumer
from headrace.sdk.clock import replace_clock
from headrace.sdk.consumer import Consumer
from headrace.sdk.options import ConsumerOptions
from headrace.sdk.starts import start_of
from headrace_core import SessionError


class Interrupt(BaseException):
    """Ctrl-C."""


class Storing:
    """The result of storing an offset, which the test decides."""

    def __init__(self) -> None:
        self.has_ended = False
        self.failure: SessionError | None = None

    def succeed(self) -> None:
        self.has_ended = True

    def fail(self) -> None:
        self.has_ended = True
        self.failure = SessionError("not sent")
        self.failure.kind, self.failure.code, self.failure.name = "not_sent", None, None

    def done(self) -> bool:
        return self.has_ended

    def wait(self, timeout_seconds: float | None) -> bool:
        if not self.has_ended and timeout_seconds is None:
            # Only that ends it.
            raise Interrupt
        return self.has_ended

    def notify(self, *_: object) -> None:
        """Do nothing: tests decide before a consumer waits."""

    def result(self) -> None:
        if self.failure is not None:
            raise self.failure


class Native:
    """Stands for the consumer of the native module."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        """Partitions and offsets that were to be stored."""
        self.results: list[Storing] = []
        self.answers: dict[int, list[str]] = {}
        """Outcomes by partition, in order, that are there at once; later ones have none yet."""
        self.items: list[tuple[str, Any]] = []
        self.left = Storing()

    def take(self) -> tuple[str, Any]:
        return self.items.pop(0) if self.items else ("nothing", Storing())

    def leave(self) -> Storing:
        return self.left

    def note_processed(self, *_: object) -> None:
        """Do nothing: positions are not asked for here."""

    def commit(self, partition: int, offset: int) -> Storing:
        storing = Storing()
        self.begun.append((partition, offset))
        self.results.append(storing)
        if self.answers.get(partition):
            getattr(storing, self.answers[partition].pop(0))()
        return storing


class Committing:
    """A consumer of one flavour, which has handed out messages of two partitions."""

    def __init__(self, kind: Any, native: Native) -> None:
        self.native = native
        self.revoked: list[list[int]] = []
        """Partitions of the calls of `on_revoked`."""
        callbacks = {"revoked": self.revoked.append}
        source = {"group": None, "name": "n", "partitions": None, "start": start_of("first")}
        self.consumer = kind(None, "s", "t", **source, callbacks=callbacks, options=ConsumerOptions())
        self.progress = self.consumer._progress
        self.progress.assignment.update({0, 1})
        self.progress.handed_out.update({0: 5, 1: 7})

    async def commit(self) -> None:
        """Commit, and give up at once what has no result."""
        if isinstance(self.consumer, Consumer):
            self.consumer.commit(timeout=0)
            return
        async with asyncio.timeout(0):
            await self.consumer.commit()

    def store_automatically(self, clock: list[float]) -> Storing:
        """Begin to store partition 0, whose messages are processed."""
        self.progress.processed[0] = 5
        clock[0] += 1e9
        self.progress.store_if_due()
        assert self.native.begun == [(0, 4)]
        return self.native.results[0]

    async def read(self) -> None:
        """React to what has happened."""
        if isinstance(self.consumer, Consumer):
            assert self.consumer.poll(timeout=0) is None
        else:
            assert await self.consumer.poll(timeout=0) is None

    async def read_until_interrupted(self) -> None:
        """Read, which waits for a result that is not there, and interrupt that."""
        if isinstance(self.consumer, Consumer):
            with pytest.raises(Interrupt):
                self.consumer.poll(timeout=0)
            return
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await self.consumer.poll(timeout=0)

    async def close(self) -> None:
        if isinstance(self.consumer, Consumer):
            self.consumer.close()
        else:
            await self.consumer.close()


@pytest.fixture(params=[Consumer, AwaitedConsumer], ids=["blocking", "asyncio"])
def committing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Committing:
    native = Native()
    for module in (headrace.sdk.blocking.consumer, headrace.aio.awaited.consumer):
        monkeypatch.setattr(module, "native_consumer", lambda *_, **__: native)
    return Committing(request.param, native)


@pytest.fixture
def clock() -> Iterator[list[float]]:
    time = [0.0]
    replace_clock(lambda: time[0])
    yield time
    replace_clock(None)


async def after_one_failed(committing: Committing) -> list[Storing]:
    """Commit two partitions: the first fails, and the second is not answered yet."""
    committing.native.answers[0] = ["fail", "succeed"]
    with pytest.raises(headrace.ConnectionFailed):
        await committing.commit()
    assert committing.native.begun == [(0, 4), (1, 6)]
    return committing.native.results


async def test_a_repeated_commit_waits_for_what_the_first_has_begun(committing: Committing) -> None:
    await after_one_failed(committing)
    with pytest.raises(TimeoutError):
        await committing.commit()
    assert committing.native.begun[2:] == [(0, 4)]
    # It was given up, and is stored again.
    with pytest.raises(TimeoutError):
        await committing.commit()
    assert committing.native.begun[3:] == [(1, 6)]


async def test_what_failed_between_two_commits_is_stored_again(committing: Committing) -> None:
    results = await after_one_failed(committing)
    results[1].fail()
    with pytest.raises(TimeoutError):
        await committing.commit()
    assert sorted(committing.native.begun[2:]) == [(0, 4), (1, 6)]


async def test_what_succeeded_between_two_commits_is_not_stored_again(committing: Committing) -> None:
    results = await after_one_failed(committing)
    results[1].succeed()
    await committing.commit()
    assert committing.native.begun[2:] == [(0, 4)]
    await committing.commit()
    assert committing.native.begun[3:] == []


async def test_a_commit_waits_for_what_is_stored_automatically(committing: Committing, clock: list[float]) -> None:
    committing.progress.handed_out.pop(1)
    committing.store_automatically(clock)
    with pytest.raises(TimeoutError):
        await committing.commit()
    assert committing.native.begun == [(0, 4)]


async def test_a_failure_of_an_earlier_attempt_is_the_commit_s(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    storing, seen = (await after_one_failed(committing))[1], []

    def fails_when_it_is_waited_for() -> bool:
        seen.append(True)
        if len(seen) > 1:
            storing.fail()
        return storing.has_ended

    monkeypatch.setattr(storing, "done", fails_when_it_is_waited_for)
    monkeypatch.setattr(storing, "wait", lambda _seconds: fails_when_it_is_waited_for())
    with pytest.raises(headrace.ConnectionFailed):
        await committing.commit()
    with pytest.raises(TimeoutError):
        await committing.commit()
    assert committing.native.begun[2:] == [(0, 4), (1, 6)]


@pytest.mark.parametrize("committing", [AwaitedConsumer], ids=["asyncio"], indirect=True)
async def test_two_tasks_that_commit_wait_for_the_same(committing: Committing) -> None:
    first = asyncio.create_task(committing.consumer.commit())
    await asyncio.sleep(0)
    assert committing.native.begun == [(0, 4), (1, 6)]
    with pytest.raises(TimeoutError):
        await committing.commit()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing_stores_again_what_has_failed(
    committing: Committing, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    committing.store_automatically(clock).fail()
    committing.native.answers[0] = ["succeed"]
    committing.native.left.succeed()
    await committing.close()
    assert committing.native.begun == [(0, 4), (0, 4)]
    assert "partition 0 is not stored yet" in caplog.text


async def test_closing_waits_for_what_is_stored_automatically(
    committing: Committing, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    committing.store_automatically(clock)
    committing.native.left.succeed()
    if isinstance(committing.consumer, Consumer):
        committing.consumer.close(timeout=0)
        assert "partition 0 could not be stored" in caplog.text
    else:
        with pytest.raises(headrace.DeadlineExceeded):
            await committing.consumer.close(timeout=0)
    assert committing.native.begun == [(0, 4)]


async def test_a_reset_undoes_what_was_noted_of_the_former_log(
    committing: Committing, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[Any, ...]] = []
    monkeypatch.setattr(committing.native, "note_processed", lambda *note: noted.append(note))
    committing.progress.note(0, 5)
    committing.native.items = [("reset", 0)]
    await committing.read()
    assert noted == [(0, 5), (0, 0)]
    assert 0 not in committing.progress.processed


async def test_a_revoke_waits_for_what_is_stored_automatically(committing: Committing, clock: list[float]) -> None:
    committing.store_automatically(clock)
    committing.native.items = [("revoked", [0])]
    await committing.read_until_interrupted()
    assert committing.native.begun == [(0, 4)]
    assert committing.revoked == []


async def test_a_revoke_stores_again_what_has_failed(
    committing: Committing, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    storing = committing.store_automatically(clock)
    committing.native.answers[0] = ["succeed"]
    committing.native.items = [("revoked", [0])]
    take = committing.native.take

    def take_after_the_failure() -> tuple[str, Any]:
        storing.fail()
        return take()

    monkeypatch.setattr(committing.native, "take", take_after_the_failure)
    await committing.read()
    assert committing.native.begun == [(0, 4), (0, 4)]
    assert committing.revoked == [[0]]


async def test_a_revoke_is_reacted_to_by_the_read_after_an_interrupted_one(committing: Committing) -> None:
    committing.progress.processed.update(committing.progress.handed_out)
    committing.native.items = [("revoked", [0])]
    for _ in range(2):
        await committing.read_until_interrupted()
        assert committing.native.begun == [(0, 4)]
        assert committing.revoked == []
    committing.native.results[0].succeed()
    await committing.read()
    assert committing.revoked == [[0]]
    assert committing.consumer.assignment == {1}
    assert committing.progress.handed_out == committing.progress.processed == {1: 7}
    await committing.read()
    assert committing.revoked == [[0]]


@pytest.mark.parametrize("committing", [AwaitedConsumer], ids=["asyncio"], indirect=True)
async def test_a_failure_of_an_attempt_before_the_latest_moves_nothing_back(committing: Committing) -> None:
    progress, native = committing.progress, committing.native
    progress.first[0] = 0
    ((_, earlier), _) = progress.begin_commit(None)
    progress.handed_out[0] = 9
    native.answers[0] = ["succeed"]
    progress.begin_commit(None)
    assert native.begun == [(0, 4), (1, 6), (0, 8)]
    # Another task has waited for it.
    native.results[0].fail()
    progress.failed(0, earlier)
    progress.begin_commit(SimpleNamespace(partition_id=0, offset=6))
    assert native.begun[3:] == []


@pytest.mark.parametrize("committing", [Consumer], ids=["blocking"], indirect=True)
async def test_a_wait_that_was_too_long_names_the_timeout_of_the_caller(committing: Committing) -> None:
    with pytest.raises(headrace.DeadlineExceeded, match=r"^not finished within 0\.5 s$"):
        committing.consumer.commit(timeout=0.5)
    with pytest.raises(headrace.DeadlineExceeded, match=r"^not finished within 0\.25 s$"):
        committing.consumer.close(timeout=0.25)
