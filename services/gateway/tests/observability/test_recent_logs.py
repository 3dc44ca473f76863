"""The ring of recent log records."""

import logging

import pytest

from headrace_gateway.observability.recent_logs import RecentLogs


@pytest.fixture
def logs():
    ring = RecentLogs(3)
    with ring.kept():
        yield ring


@pytest.fixture
def log(logs):
    logger = logging.getLogger("headrace.test")
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.setLevel(logging.NOTSET)


def test_the_oldest_goes(logs, log):
    assert (logs.oldest, logs.last) == (1, 0)
    for number in range(5):
        log.info("number %d", number)
    assert [record.message for record in logs.after(0, count=9)] == ["number 2", "number 3", "number 4"]
    assert (logs.oldest, logs.last) == (3, 5)
    assert [record.sequence for record in logs.after(3, count=1)] == [4]
    assert [record.sequence for record in logs.after(0, count=2)] == [4, 5]


def test_levels(logs, log):
    log.debug("a")
    log.critical("b")
    log.log(logging.WARNING + 5, "c")
    assert [record.level for record in logs.after(0, count=9)] == ["debug", "error", "warning"]
    assert [record.message for record in logs.after(0, count=9, level=logging.WARNING)] == ["b", "c"]


def test_fields_and_tracebacks(logs, log):
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("it failed", extra={"seconds": 0.5, "where": {"a": 1}})
    (record,) = logs.after(0, count=9)
    assert record.fields == {"seconds": 0.5, "where": "{'a': 1}"}
    assert record.exception.endswith("KeyError: 'gone'")


def test_what_is_too_long_is_cut(logs, log):
    log.info("x" * 100_000)
    (record,) = logs.after(0, count=9)
    assert len(record.message) == 8192


def test_a_wrong_format_string_does_no_harm(logs):
    logs.emit(logging.makeLogRecord({"msg": "%d", "args": ("x",), "levelno": logging.INFO}))
    assert logs.after(0, count=9)[0].message == "%d"


def test_nothing_is_kept_afterwards():
    ring = RecentLogs(3)
    with ring.kept():
        pass
    logging.getLogger("headrace.test").error("late")
    assert ring.last == 0
