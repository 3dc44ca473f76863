"""Statistics of the last hour."""

from types import SimpleNamespace

import pytest

from headrace_gateway.observability import statistics_history
from headrace_gateway.observability.statistics_history import SAMPLES_MAX, StatisticsHistory
from headrace_node.connections.sessions import Response, SessionLost
from headrace_proto.errors import Status


class Sessions:
    """Answers with the number of calls, or with a failure."""

    def __init__(self):
        self.calls = 0
        self.failure = None

    async def call(self, user_id, code, payload):
        assert (user_id, payload) == (0, b"")
        self.calls += 1
        if self.failure is not None:
            raise self.failure
        return Response(Status.OK, b"%d" % self.calls)


@pytest.fixture
def sessions(monkeypatch):
    def decoded(payload):
        return SimpleNamespace(
            messages_count=int(payload),
            messages_size_bytes=100 * int(payload),
            cpu_usage_percent=1.5,
            total_cpu_usage_percent=2.5,
            memory_usage_bytes=1000,
        )

    monkeypatch.setattr(statistics_history.core, "decode_stats", decoded)
    return Sessions()


async def test_the_newest_samples_are_kept(sessions):
    history = StatisticsHistory(sessions, lambda: 10_000_000 * sessions.calls)
    for _ in range(SAMPLES_MAX + 5):
        await history.take()
    samples = history.samples
    assert len(samples) == SAMPLES_MAX
    assert (samples[0].messages_count, samples[0].timestamp) == (6, 60_000_000)
    assert (samples[-1].messages_count, samples[-1].messages_size_bytes) == (SAMPLES_MAX + 5, 100 * (SAMPLES_MAX + 5))
    assert (samples[-1].cpu_usage, samples[-1].total_cpu_usage, samples[-1].memory_usage) == (1.5, 2.5, 1000)


async def test_a_time_without_an_answer_is_left_out(sessions):
    history = StatisticsHistory(sessions, lambda: sessions.calls)
    await history.take()
    sessions.failure = SessionLost("the node stops")
    await history.take()
    sessions.failure = None
    await history.take()
    assert [sample.timestamp for sample in history.samples] == [1, 3]
