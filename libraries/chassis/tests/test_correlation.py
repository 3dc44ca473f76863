"""Log records contain the id of their request (USE-6)."""

import logging

import pytest

from headrace_chassis.correlation import REQUEST_ID, Correlation, request_id_of
from headrace_gateway.observability.recent_logs import RecentLogs
from headrace_proto.trace_context import REQUEST, Recorded, TraceContext


def marked() -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": "m"})
    assert Correlation().filter(record) is True
    return record


def test_records_carry_the_request_and_its_trace() -> None:
    outside = marked()
    assert not hasattr(outside, "request_id")
    assert not hasattr(outside, "trace_id")
    request, recorded = REQUEST_ID.set("order-7"), REQUEST.set(Recorded(TraceContext(0xABC, 1)))
    try:
        inside = marked()
        assert vars(inside)["request_id"] == "order-7"
        assert vars(inside)["trace_id"] == f"{0xABC:032x}"
        named = logging.makeLogRecord({"msg": "m", "request_id": "its own"})
        Correlation().filter(named)
        assert vars(named)["request_id"] == "its own"
        logs = RecentLogs(10)
        logs.handle(logging.makeLogRecord({"msg": "m", "levelno": logging.INFO}))
        (kept,) = logs.after(0, count=10)
        assert kept.fields["request_id"] == "order-7"
    finally:
        REQUEST.reset(recorded)
        REQUEST_ID.reset(request)


@pytest.mark.parametrize("given", ["", "with space", "line\nbreak", "x" * 129, "ä"])
def test_what_could_not_stand_in_a_log_is_replaced(given: str) -> None:
    made = request_id_of(given)
    assert made != given
    assert len(made) == 16
    assert request_id_of("order-7:a/b+c=.") == "order-7:a/b+c=."
