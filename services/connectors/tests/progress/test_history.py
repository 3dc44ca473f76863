"""Progress of connectors over time."""

from __future__ import annotations

from typing import Any

from headrace_connectors.contract import Lag
from headrace_connectors.observability.history import SAMPLES_MAX, History
from headrace_connectors.pipeline_file.models import ConnectorSettings
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.status import State, Status


class Fake(Connector):
    """A connector that does nothing."""

    kind = "source"
    found: Lag | Exception | None = None

    def __init__(self, key: str = "a") -> None:
        super().__init__(key, "fake", ConnectorSettings(plugin="fake"))

    @property
    def invalid_count(self) -> int:
        return 0

    async def lag(self) -> Lag | None:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def _serve(self) -> None:
        """Do nothing."""

    def _halt(self) -> bool:
        return False


def rates(history: History, key: str = "a") -> list[Any]:
    return [one.records_per_second for one in history.samples(key)]


async def test_rates_are_those_between_two_samples() -> None:
    """CON-33: records per second, and none before the second sample."""
    now, one = [100.0], Fake()
    history = History(lambda: [one], lambda: now[0])
    await history.take()
    one.status.committed(50)
    now[0] += 10
    await history.take()
    now[0] += 10
    await history.take()
    assert rates(history) == [None, 5.0, 0.0]
    assert history.newest("a") == {"records_per_second": 0.0, "lag": None}


async def test_a_successor_counts_from_zero() -> None:
    """CON-33: the history goes on after a change of the configuration; that of a deleted connector is dropped."""
    now, connectors = [0.0], [Fake()]
    history = History(lambda: connectors, lambda: now[0])
    connectors[0].status.committed(100)
    await history.take()
    successor = Fake()
    successor.status.committed(30)
    connectors[:] = [successor]
    now[0] += 10
    await history.take()
    assert rates(history) == [None, 3.0]
    connectors.clear()
    await history.take()
    assert history.samples("a") == []
    assert history.newest("a") == {"records_per_second": None, "lag": None}


async def test_a_lag_that_is_not_known_disturbs_nothing() -> None:
    """CON-33: a plugin that fails is not known, and the others are."""
    one, other = Fake("a"), Fake("b")
    one.found, other.found = RuntimeError("broken"), Lag(7, "bytes")
    history = History(lambda: [one, other], lambda: 0.0)
    await history.take()
    assert history.newest("a")["lag"] is None
    assert history.newest("b")["lag"] == {"behind": 7, "unit": "bytes"}
    assert (history.lag_of("a"), history.lag_of("b"), history.lag_of("c")) == (None, Lag(7, "bytes"), None)


async def test_samples_are_bounded() -> None:
    one = Fake()
    history = History(lambda: [one], lambda: 0.0)
    for _ in range(SAMPLES_MAX + 5):
        await history.take()
    assert len(history.samples("a")) == SAMPLES_MAX


def test_repeated_errors_are_counted() -> None:
    """CON-33: the newest errors, each with its first and last time."""
    status = Status()
    for text in ("one", "one", "two", "one"):
        status.failed(RuntimeError(text))
    errors = status.document()["errors"]
    assert [(one["message"], one["count"]) for one in errors] == [("one", 2), ("two", 1), ("one", 1)]
    assert errors[0]["first_at"] <= errors[0]["at"]
    for number in range(100):
        status.failed(RuntimeError(str(number)))
    assert len(status.errors) == 32
    successor = Status()
    status.become(State.RUNNING)
    successor.follow(status)
    assert successor.document()["errors"] == status.document()["errors"]
    assert successor.document()["history"] == status.document()["history"]
